"""Task folders as an environment. `nemo_gym.sources.task_folders` has its parts."""

from __future__ import annotations

from nemo_gym.sources.task_folders.environment import TaskFoldersServer


class TaskFoldersResourcesServer(TaskFoldersServer):
    pass


if __name__ == "__main__":
    TaskFoldersResourcesServer.run_webserver()
