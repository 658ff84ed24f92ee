"""Work on stored runs: random access to rows, merged shards, new verification, profiles of tasks, comparisons, health.

Stored files are never changed; every result is a new file. Builds on `plan`, `output` and `run`.

- `stored`: random access to the rows of a finished run
- `merging`: merges the shards of a run
- `reverify`: scores stored rollouts again without a policy
- `reward_profile`: reward statistics per task
- `comparison`: the difference between two runs of the same tasks
- `score_tables`, `ranking`, `rank_plot`: models ranked by their runs
- `run_plan`: what a run can show, from the spread of an earlier one
- `telling_tasks`: which tasks tell models apart
- `health`: signs of broken data and of reward hacking
"""
