"""Running a plan: a bounded number of rollouts in flight, each attempted until it has a score or fails finally.

A run ends when its plan is empty, when a stop rule applies or on a signal. Builds on `plan` and `output`.

- `collect`: a whole collection, from settings to summary; `settings` and `summary` are its input and result
- `execution`: one start of a run, after all checks
- `control`, `budgets`, `prices`: requests while it runs, and what it may spend
- `durable_attempts`: attempts that continue where they were interrupted
- `options`: the settings that are keys of commands
- `collector`: the window of rollouts in flight, retries and stop rules
- `agent_attempter`, `answer`: `POST /run`, and the classification of its answer as scored or failed
- `find_required_servers`: the agents of a dataset and the servers they refer to
- `until`, `until_target`, `until_units`, `until_tokens`, `until_losses`, `until_reach`, `until_estimate`: runs that
  stop when they know enough
- `stopping`, `counters`, `progress`, `run_metrics`: how a run ends, and its figures
- `discovery`: finds a running gym; it is here and not in `head` because a collection takes a `RunningGym`
- `examples`: the ecosystem's `RolloutCollectionHelper`
"""
