"""Tools for authors of environments, agents and models.

Modules: `implementations` (the folders of servers), `scaffold` (a new environment), `suites` (test runs) and `catalog`
(a list of all implementations, read from their sources without running them). The room builds on `nemo_gym.launch` and
`nemo_gym.config`.
"""
