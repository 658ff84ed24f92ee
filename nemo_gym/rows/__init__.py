"""The scored row: a task, its response and its reward, the one thing that the gym makes.

`keys` names its members, `identity` the rollout that it belongs to, `version` its form. `verdict` decides what a row
says: its outcome, its reward, its failure. `parts` reads the other members, and `compose` is the only module that puts
rows together. `calls` and `masking` read the model calls. `models` holds the pydantic models of the ecosystem, and is
the only module that imports pydantic. No module does I/O, so a client that reads rows loads no server code.
"""
