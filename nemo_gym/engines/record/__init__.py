"""The record of the calls that rollouts make of a model server.

A call is recorded once, in one form, before its answer is sent (`gateway.calls`). The control routes, the tree and the
trace of a rollout, and the records of `ecosystem.model_calls` are read from it.

    call      a call that is being answered, and its line
    files     append-only files of lines
    deltas    requests as what they add to an earlier call
    index     the size of a record and its latest requests, in one process
    store     the folder with the calls of all rollouts
"""
