"""Working on stored runs: reading rows by rollout, merging shards, verifying again, and profiling tasks.

Stored files are never changed; every result is a new file. Builds on `plan`, `output` and `run`.

- `stored`: random access to the rows of a finished run
- `merging`: merges the shards of a run
- `reverify`: scores stored rollouts again without a policy
- `reward_profile`: reward statistics per task
"""
