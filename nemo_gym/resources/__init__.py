"""The parts of a resources server: an environment's tools, the state of its sessions, and its verifier.

    server       `SimpleResourcesServer`: routes, sessions and a `verify` that runs in a worker when it is synchronous
    answer_fault_rule  an answer that breaks `verify` scores 0 with its reason
    judge_failsafe    a `JudgeError` of `verify` becomes a row that is marked as failed
    gymnasium    `GymnasiumServer`: environments that score every step

The room builds on `serving` and `verify`. This file imports nothing, because workers import the room's modules.
"""
