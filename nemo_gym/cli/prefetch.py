"""`ng_prefetch`: install the base system of images, and make the images of task folders, with network."""

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
    packages: str | list[str] = Field([], description="Packages of Debian beside the default ones.")
    build_network: bool = Field(True, description="Let the RUN lines of images use this machine's network.")
    store: str | None = Field(
        None, description="The folder of images, by default one for all gyms of this user."
    )


COMMAND = Command(
    name="ng_prefetch",
    summary="Install the base system of images and make the images of task folders, so that runs need no network.",
    example="ng_prefetch +folder=tasks",
    keys=PrefetchKeys,
    exit_codes={**EXIT_CODES, ExitCode.FATAL: "failed, or an image could not be made"},
)


def prefetch(keys: PrefetchKeys) -> int:
    from nemo_gym.failures import ConfigError
    from nemo_gym.sandbox.providers.rootless.launch import find_missing
    from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider

    if (missing := find_missing()) is not None:
        raise ConfigError(f"Images cannot be made here: {missing}.", code="sandbox_unavailable")
    return asyncio.run(_fetch(keys, RootlessProvider(store=keys.store)))


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
