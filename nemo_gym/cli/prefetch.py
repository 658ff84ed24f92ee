"""`ng_prefetch`: install what runs need, with network: images of task folders, packages of foreign environments."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import EXIT_CODES, Command, ExitCode, Keys, several

if TYPE_CHECKING:
    from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider


class PrefetchKeys(Keys):
    folder: str | None = Field(None, description="Task folders whose images are made; by default none.")
    names: str | list[str] = Field(
        [], description="Environments of other projects, such as textarena:Mastermind-v0, or their kinds."
    )
    venvs: str | None = Field(None, description="The folder of interpreters, by default one of this user.")
    rows: str | None = Field(None, description="Write the tasks of the named environments to this file.")
    tasks: int = Field(100, ge=1, description="Tasks of each environment that are written.")
    packages: str | list[str] = Field([], description="Packages of Debian beside the default ones.")
    build_network: bool = Field(True, description="Let the RUN lines of images use this machine's network.")
    store: str | None = Field(
        None, description="The folder of images, by default one for all gyms of this user."
    )


COMMAND = Command(
    name="ng_prefetch",
    summary="Install what runs need: images of task folders, or packages of other projects' environments.",
    example="ng_prefetch +folder=tasks",
    keys=PrefetchKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or an image could not be made"},
)


def prefetch(keys: PrefetchKeys) -> int:
    from nemo_gym.failures import ConfigError

    if names := several(keys.names):
        return _fetch_environments(names, keys)
    from nemo_gym.sandbox.providers.rootless.launch import find_missing
    from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider

    if (missing := find_missing()) is not None:
        raise ConfigError(f"Images cannot be made here: {missing}.", code="sandbox_unavailable")
    return asyncio.run(_fetch(keys, RootlessProvider(store=keys.store)))


def _fetch_environments(names: list[str], keys: PrefetchKeys) -> int:
    """Install the packages of environments, load each environment once, and write its tasks if they are asked for."""
    from nemo_gym.sources.foreign.blocks import name_agent
    from nemo_gym.sources.foreign.environment import build_program, require_present
    from nemo_gym.sources.foreign.kinds import KINDS, read_kind, read_name
    from nemo_gym.sources.foreign.rows import read_listing, write_rows
    from nemo_gym.sources.foreign.venvs import Venvs

    venvs = Venvs(Path(keys.venvs) if keys.venvs else None, lambda line: print(line, file=sys.stderr))
    found = [(name, None if name in KINDS else read_name(name)) for name in names]
    require_present(named for _, named in found if named is not None)
    rows = []
    for name, named in found:
        kind = named.kind if named is not None else read_kind(name)
        is_remote = named is not None and named.is_remote
        print(f"{name}: {'needs no packages' if is_remote else venvs.build(kind)}", flush=True)
        if named is not None:
            listing = read_listing(build_program(name, {}, keys.venvs), keys.tasks, None, 0)
            rows += listing.build_rows(kind.name, name_agent(named), None, 0)
    if keys.rows is not None:
        write_rows(Path(keys.rows), rows)
        print(f"{keys.rows}: {len(rows)} tasks")
    return ExitCode.COMPLETE


async def _fetch(keys: PrefetchKeys, provider: RootlessProvider) -> int:
    from nemo_gym.failures import GymError
    from nemo_gym.sandbox.providers.rootless.debian import install_debian
    from nemo_gym.sources.task_folders.dataset import find_tasks
    from nemo_gym.sources.task_folders.folder import FolderTask
    from nemo_gym.sources.task_folders.sandboxes import Sandboxes

    packages = several(keys.packages)
    print(f"base system: {await install_debian(provider.store, packages)}")
    sandboxes, failed = Sandboxes(provider, keys.build_network, packages), 0
    for task in find_tasks(Path(keys.folder)).load() if keys.folder else ():
        try:
            if not isinstance(task, FolderTask):
                raise task
            images = [task.find_verifier_image(step) for step in task.steps]
            separate = {image.folder: image.settings for image in images if image is not None}
            for folder, settings in {task.environment: task.settings.environment, **separate}.items():
                image, _ = await sandboxes.find_image(settings, folder)
                print(f"{task.name}: {image}", flush=True)
        except GymError as error:
            failed += 1
            print(f"{error.failure.message}", file=sys.stderr)
    return ExitCode.FATAL if failed else ExitCode.COMPLETE


main = COMMAND.entry_point(prefetch)
