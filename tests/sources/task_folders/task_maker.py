"""Small task folders for tests."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from nemo_gym.sources.task_folders.folder import FolderTask, load_folder
from nemo_gym.sources.task_folders.sandboxes import Sandboxes
from nemo_gym.sources.task_folders.settings import EnvironmentSettings
from nemo_gym.sources.task_folders.trial import Trial
from tests.sandbox.rootless_images import HOST_IMAGE, READABLE

OFFLINE = '[environment]\nnetwork_mode = "no-network"\nworkdir = "/tmp"\n'
TEST = "#!/bin/bash\ncat /tmp/answer > /logs/verifier/reward.txt 2>/dev/null || echo 0 > /logs/verifier/reward.txt\n"
FILES = {
    "instruction.md": "Write 1 to /tmp/answer.\n",
    "environment/Dockerfile": "FROM ubuntu:22.04\n",
    "tests/test.sh": TEST,
    "solution/solve.sh": "#!/bin/bash\necho 1 > /tmp/answer\n",
}


def make_task(folder: Path, settings: str = OFFLINE, without: tuple[str, ...] = (), **files: str) -> Path:
    """Write a task folder. `files` replace or add files; their names have `__` for `/`."""
    named = {name.replace("__", "/"): text for name, text in files.items()}
    for name, text in {**FILES, "task.toml": settings, **named}.items():
        if name not in without:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def make_steps(folder: Path, settings: str, steps: dict[str, dict[str, str]]) -> Path:
    """Write a task folder with steps: name → files."""
    folder.mkdir(parents=True, exist_ok=True)
    named = "".join(
        f'[[steps]]\nname = "{name}"\n{files.pop("settings", "")}\n' for name, files in steps.items()
    )
    (folder / "task.toml").write_text(f"{OFFLINE}{settings}\n{named}")
    all_files = {"environment/Dockerfile": FILES["environment/Dockerfile"]}
    for name, files in steps.items():
        given = {"instruction.md": f"Do {name}.", "tests/test.sh": TEST, **files}
        all_files |= {f"steps/{name}/{path}": text for path, text in given.items()}
    for path, text in all_files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


class HostSandboxes(Sandboxes):
    """Sandboxes with the programs of this machine, for every environment."""

    async def find_image(
        self, settings: EnvironmentSettings, folder: Path
    ) -> tuple[str | None, dict[str, object]]:
        return HOST_IMAGE, {"readable": READABLE}


def load_trial(folder: Path, provider: RootlessProvider, variables: frozenset[str] = frozenset()) -> Trial:
    task: FolderTask = load_folder(folder)
    return Trial(task, HostSandboxes(provider), variables)
