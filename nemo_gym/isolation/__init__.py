"""Isolation of untrusted programs on this machine.

The room promises that a program never runs as root with write access, that its time, memory, output and processes are
bounded, and that everything it started or wrote ends with it. Verifiers run code of models with it, and so does the
provider `local` of `nemo_gym.sandbox`.

    execution            runs confined programs in the strictest isolation that works
    confinement          the command line that confines a program
    process              one confined program: streams, lifetime, end
    time_limits          seconds of the clock, or of the CPU
    memory, users        what the kernel counts and separates: cgroups, user ids
    memory_count         the memory of a program where no cgroup counts it
    leftovers            files that programs and killed gyms have left
    system_calls         the filter of system calls
    portable_python      the gym's interpreter as files that are mounted into any image
    python_installation  an interpreter that confined programs can read
"""
