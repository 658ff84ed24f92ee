"""Environments of verifiers: `verifiers:FOLDER` is the package of a taskset, `verifiers:NAME` one that verifiers has.

An attempt is one episode of the framework's own runner. Every seat plays in a subprocess of this sandbox, with the
harness `null` where neither the task nor the options name another one. The options are the `[env]` block of verifiers,
`harness` and `runs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.utils.loaders import load_environment

from ..faults import HostError
from ..packages import compute_digest, describe_package
from .verifiers_cast import Cast, name_runs
from .verifiers_configuration import (
    explain_loading,
    find_judges,
    find_package,
    resolve_configuration,
)
from .verifiers_episode import read_episode
from .verifiers_programs import take_programs

PACKAGE = "verifiers"
_CLEANING_S = 10.0


def build(name: str, options: dict[str, Any]) -> VerifiersTasks:
    return VerifiersTasks(name, options)


class VerifiersTasks:
    """A taskset with its environment."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._options = options
        self._folder = Path(name) if name.startswith("/") else None
        take_programs()
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._package = find_package(name)
        self._loop = asyncio.new_event_loop()
        self._env: Any = load_environment(resolve_configuration(self._package, options))
        self._judges = find_judges(self._env.config)
        self._runs = name_runs(list(agent_config_fields(self._env.config)), options.get("runs") or {})
        self._most = {name: seat.max_turns for name, seat in agent_config_fields(self._env.config).items()}
        self._tasks: list[Any] = []
        self._rest = self._load()
        self._shared = self._env.shared_tools()  # tool servers of the taskset, which all attempts share
        tools = contextlib.nullcontext(self._await(self._shared.__aenter__()))
        self._env.shared_tools = lambda: tools

    def describe(self) -> dict[str, Any]:
        package = describe_package(PACKAGE)
        bounded = self._env.taskset.bounded
        own = {"license": None, "source": self._package.name} if self._folder else {}
        return {
            **package,
            **own,
            "name": self._package.name,
            "version": self._package.version or package["package_version"],
            "digest": compute_digest([PACKAGE], self._folder, {"name": self._package.name, **self._options}),
            "loop": "theirs",
            "tasks": len(list(self._list_all())) if bounded else None,
            "infinite": not bounded,
            "seats": self._list_seats(),
            "models": list(self._judges),
            "rewards": [{"name": "reward", "weight": 1.0, "range": None}],
            "reward_rule": "sum",
            "seeded": "reset",
            "needs": {"network": False, "writes": False},
            "concurrency": 1,
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        if split is not None:
            told = "verifiers has no splits: name one by an option of the taskset"
            raise HostError("bad_request", f"{told}, such as '+options={{taskset: {{split: {split}}}}}'")
        bounded = self._env.taskset.bounded
        start = cursor if bounded else seed + cursor
        found = list(itertools.islice(self._list_all(), start, start + limit))
        tasks = [self._describe_task(start + offset, task) for offset, task in enumerate(found)]
        return {"tasks": tasks, "cursor": cursor + len(found) if len(found) == limit else None}

    def run(
        self, task: dict[str, Any], seed: int, models: dict[str, Any], limits: dict[str, Any]
    ) -> dict[str, Any]:
        played = self._find_task(task["data"])
        before = set(Path(tempfile.gettempdir()).iterdir())
        try:
            with self._connect(models, limits.get("turns")) as cast:
                episode = self._await(self._play(played, cast))
        finally:
            clear_files(before)
        cast.rename(episode)
        return read_episode(episode)

    async def _play(self, task: Any, cast: Cast) -> Any:
        """Play one episode. Its clients, which keep the keys of an attempt, end with it."""
        async with self._env.serving():
            self._env._episode_agents = lambda *given: cast.take(
                type(self._env)._episode_agents(self._env, *given)
            )
            (slot,) = self._env.slots(task)
            return await self._env.run_slot(slot, cast.any_model)

    @contextlib.contextmanager
    def _connect(self, models: dict[str, Any], turns: int | None) -> Iterator[Cast]:
        """Give every run of a seat and every judge its model, each with a key of its own."""
        keys = {name: f"GYM_API_KEY_{number}" for number, name in enumerate(models)}
        os.environ.update({keys[name]: model["key"] for name, model in models.items()})
        try:
            contexts = {
                name: ModelContext(
                    model=model["model"],
                    client=EvalClientConfig(base_url=model["base_url"], api_key_var=keys[name]),
                )
                for name, model in models.items()
            }
            for name, seat in agent_config_fields(self._env.config).items():
                seat.max_turns = min((each for each in (self._most[name], turns) if each), default=None)
            for name, judge in self._judges.items():
                judge.base_url, judge.api_key_var = models[name]["base_url"], keys[name]
                if hasattr(judge, "model"):
                    judge.model = models[name]["model"]
            yield Cast(self._runs, contexts)
        finally:
            for key in keys.values():
                del os.environ[key]

    def _list_seats(self) -> list[dict[str, Any]]:
        """Return the seats, and whether each one trains: the environment decides this at the start of an episode."""
        nowhere = EvalClientConfig(base_url="http://127.0.0.1:1/v1", api_key_var="GYM_API_KEY")
        agents = self._env._episode_agents(ModelContext(model="none", client=nowhere), [], None, None)
        self._await(self._env.setup(agents))
        return [
            {"name": name, "trainable": getattr(agents, seat).trainable}
            for seat, names in self._runs.items()
            for name in names
        ]

    def _load(self) -> Iterator[Any]:
        """Return the tasks of the taskset, loaded at the first one. Raises `HostError` if this fails."""
        try:
            yield from self._env.taskset
        except Exception as error:
            raise explain_loading(error, self._package.name) from error

    def _list_all(self) -> Iterator[Any]:
        """Return the tasks from the first one, each of which is loaded once."""
        for index in itertools.count():
            if index == len(self._tasks):
                loaded = next(self._rest, None)
                if loaded is None:
                    return
                self._tasks.append(loaded)
            yield self._tasks[index]

    def _find_task(self, data: dict[str, Any]) -> Any:
        found = next(itertools.islice(self._list_all(), data["index"], None), None)
        if found is None or found.key != data["key"]:
            raise HostError(
                "task_changed", f"task {data['index']} of {self._package.name} is another one now"
            )
        return found

    def _describe_task(self, index: int, task: Any) -> dict[str, Any]:
        data = task.data
        restricted = "*" not in data.network_allow or data.network_block
        for needed in ("an image", data.image), ("rules for its network", restricted):
            if needed[1]:
                told = f"task {index} of {self._package.name} needs {needed[0]}, so a container"
                raise HostError("unsupported", f"{told}; this gym plays every seat in its own sandbox")
        system = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
        user = [{"role": "user", "content": data.prompt_text}] if data.prompt_text else []
        return {
            "id": f"{self._package.name}/{data.id or index}",
            "prompt": system + user,
            "data": {"index": index, "key": task.key},
        }

    def _await(self, awaited: Any) -> Any:
        """Wait for a coroutine. One that is interrupted is cancelled, so that it ends what it has started."""
        task = self._loop.create_task(awaited)
        try:
            return self._loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                self._loop.run_until_complete(asyncio.wait([task], timeout=_CLEANING_S))
            raise


def clear_files(before: set[Path]) -> None:
    """Remove what an attempt has left in the folder of temporary files, which is the home, too.

    A host without a sandbox shares it with other programs, and leaves it.
    """
    if "GYM_OWN_TMP" not in os.environ:
        return
    for path in set(Path(tempfile.gettempdir()).iterdir()) - before - {Path.home() / ".cache"}:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
