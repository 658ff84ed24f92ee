"""Runs shown in experiment trackers: `+track=wandb`, `mlflow`, `trackio` or `tensorboard`.

Each tracker is a module with a function `start(run: TrackedRunInfo) -> Tracker`; its package is imported only there.

- `tracker`: the interface of a tracker
- `tracked`: follows a run: figures as they come, samples, the files at the end

Builds on `plan`, `output` and `run`.
"""
