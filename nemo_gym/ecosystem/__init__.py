"""Logic that only the ecosystem's import paths offer, and nothing of ours calls.

Modules at the import paths re-export it (`nemo_gym.verifier_fixture` and others). The room stands above every other, so
that none comes to depend on it:

- `row_collection`, `attempt_rows`: rollouts of rows in memory, and questions about stored rows of attempts
- `model_calls`, `openai_client`, `token_capture`: what servers of the ecosystem expect of model servers
- `health_verdicts`, `verifier_fixture`, `task_validator`: checks of runs, verifiers and task rows
- `image_prompts`, `deliverables`, `profiler`: parts of environments and agents
"""
