"""The gateway: model calls of agents that nobody adapted, by rollout.

A rollout is opened with a control route, which returns a key. The key opens the model calls of this rollout and nothing
else. Every call is appended to the rollout's record before its answer is sent.

    openings, access     opened rollouts and their keys; the rollout that a request belongs to
    requests             pinned fields and limits of a request
    calls                the layer of a model server that records the calls of rollouts
    reading              the tree of a record, and its main conversation as one Responses object
    control              the control routes
"""
