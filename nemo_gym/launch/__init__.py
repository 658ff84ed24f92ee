"""From configuration to running servers: held sockets, forked processes, supervision, restart.

The way of a start: `addresses` binds every socket, `plan` makes a `SupervisedServer` of every process, `supervisor`
keeps them alive through a `spawners.Spawner`, whose default has a fork server. `gym.launch` ties
these together for a library's user, `serving` for a command, `run_helper` for a trainer.
"""
