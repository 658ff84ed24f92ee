"""Child processes: how they are started, talked to, bounded and ended.

`messages` is the one framing between a parent and a child. `program` runs a function in a fresh interpreter, with a
channel to it. `fork_server` forks children from such a program, warm with the modules that they need; `forking` is
its inside. `workers` is a pool of forked children for synchronous code that computes; `worker` is one of them as the
pool sees it, `worker_main` its inside. `ending` ties a process to its parent, `process_tree` finds and ends what a
process started.

The room promises:
- A program ends when its parent does, however that dies: it watches its channel and its parent's pid.
- What a fork server forks ends with the fork server, by the kernel's hand, and its process group with it.
- No exit status is lost, and no signal reaches a process that took over a number.
- A fork server that dies is started again by the next request.

It builds on the standard library, `nemo_gym.failures` and, to find the processes of a user, psutil.
"""
