"""From a configuration to running servers: held sockets, forked processes, supervision, restart.

    gym             `launch`: a running gym for a library's user
    inline          a gym in one event loop, without ports
    run_helper      `RunHelper`: a gym inside a trainer
    serving         a gym for a command, with signals and reports
    sockets         listening sockets that are held before any server starts
    plan            the server processes of a configuration
    environments    virtual environments of servers with their own requirements
    inspection      the options of implementations, read in a process of its own
    task_checks     task rows, checked by the models of environments that do not run
    records         the files that announce a running gym
    observation     the state, counters and memory of running servers
    table           the table of servers
    reporting       progress lines and JSON events
    early_start     the fork server that a command starts first

The room promises that every port is held before it is published, that a dead server is restarted on its socket, and
that no process survives the gym. It builds on `processes`, `head` and `transport`.
"""
