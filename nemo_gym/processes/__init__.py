"""Child processes: start, communication, limits and end.

    messages            the framing of messages between a parent and a child
    program             a function in a fresh interpreter, with a channel to it
    fork_server         children forked from a program with preloaded modules
    workers             a pool of forked children for CPU-bound synchronous code
    worker_main         the main loop of a worker
    process_tree        finding and killing the descendants of a process
    event_loop_thread   an event loop in a thread, for blocking code
    loop_monitor        names handlers that block the event loop

The room promises:
- A program ends when its parent does, even by SIGKILL: it watches its channel and its parent's pid.
- The children of a fork server and their process groups are killed when the fork server ends.
- No exit status is lost, and no signal reaches a process that reuses a pid.
- A fork server that dies is restarted by the next request.

It builds on the standard library, `nemo_gym.failures` and, to find the processes of a user, psutil.
"""
