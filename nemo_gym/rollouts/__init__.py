"""Collecting rollouts: from a dataset of tasks to files of scored rows.

Every planned rollout, a pair (task, repeat), gets exactly one row, also after crashes and resumes. One failed rollout
never stops a run. Memory is bounded by the rollouts in flight. The room calls servers through `transport` only.

- `plan`: datasets, malformed rows, and the sequence of planned rollouts
- `output`: crash-safe files, the manifest, and resuming
- `run`: the collector, stop rules, progress, metrics and the summary
- `lookback`: merging, verifying and profiling stored runs

Each of them imports only from those before it.
"""
