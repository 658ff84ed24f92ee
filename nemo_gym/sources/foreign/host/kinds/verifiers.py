"""Environments of verifiers: `verifiers:FOLDER` is the package of a taskset, `verifiers:NAME` one that verifiers has.

An attempt is one episode of the framework's own runner. Every seat plays in a subprocess of this sandbox, with the
harness `null` where neither the task nor the options name another one. The options are the `[env]` block of verifiers,
and `harness`. Harness programs run on this interpreter, whose lock has their packages: the framework would install
them from an index at their first use.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.configs.retries import RetryConfig
from verifiers.v1.runtimes.subprocess import SubprocessRuntime
from verifiers.v1.utils.loaders import load_environment

from ..faults import HostError
from ..packages import compute_digest, describe_package
from .verifiers_configuration import (
    explain_loading,
    find_judges,
    find_package,
    list_missing,
    resolve_configuration,
)
from .verifiers_episode import read_episode

PACKAGE = "verifiers"
_CLEANING_S = 10.0
_BLOCK = re.compile(r"^# /// script\n(?P<lines>(?:#.*\n)*?)# ///$", re.MULTILINE)
_DEPENDENCIES = re.compile(r"^# dependencies = \[(.*?)\]", re.MULTILINE | re.DOTALL)


def build(name: str, options: dict[str, Any]) -> VerifiersTasks:
    return VerifiersTasks(name, options)


class VerifiersTasks:
    """A taskset with its environment."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self._options = options
        self._folder = Path(name) if name.startswith("/") else None
        SubprocessRuntime.prepare_uv_script = prepare_program
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._package = find_package(name)
        self._loop = asyncio.new_event_loop()
        self._env: Any = load_environment(resolve_configuration(self._package, options))
        self._judges = find_judges(self._env.config)
        self._tasks: list[Any] = []
        self._rest = iter(self._env.taskset)
        self._serving = self._env.serving()  # tool servers that all attempts share
        self._await(self._serving.__aenter__())

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
            "seats": [
                {"name": seat, "trainable": trainable} for seat, trainable in self._find_standing().items()
            ],
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
            raise HostError("bad_request", f"{told}, such as +options={{taskset:{{split:{split}}}}}")
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
        with self._connect(models, limits.get("turns")) as context:
            (slot,) = self._env.slots(played)
            episode = self._await(self._env.run_slot(slot, context))
        clear_files(before)
        return read_episode(episode, list(agent_config_fields(self._env.config)))

    @contextlib.contextmanager
    def _connect(self, models: dict[str, Any], turns: int | None) -> Iterator[ModelContext]:
        """Give every seat and judge its model, each with a key of its own."""
        config, keys = self._env.config, {name: name_key(name) for name in models}
        os.environ.update({keys[name]: model["key"] for name, model in models.items()})
        try:
            for name, seat in agent_config_fields(config).items():
                model = models[name]
                client = EvalClientConfig(base_url=model["base_url"], api_key_var=keys[name])
                most = min((each for each in (seat.max_turns, turns) if each), default=None)
                played = {"client": client, "model": model["model"], "max_turns": most}
                setattr(config, name, seat.model_copy(update={**played, "retries": RetryConfig()}))
            for name, judge in self._judges.items():
                judge.base_url, judge.api_key_var = models[name]["base_url"], keys[name]
                if hasattr(judge, "model"):
                    judge.model = models[name]["model"]
            yield ModelContext(model=model["model"], client=client)
        finally:
            for key in keys.values():
                del os.environ[key]

    def _find_standing(self) -> dict[str, bool]:
        """Return the seats, and whether each one trains: the environment decides this at the start of an episode."""
        nowhere = EvalClientConfig(base_url="http://127.0.0.1:1/v1", api_key_var=name_key("none"))
        agents = self._env._episode_agents(ModelContext(model="none", client=nowhere), [], None, None)
        self._await(self._env.setup(agents))
        return {name: getattr(agents, name).trainable for name in agent_config_fields(self._env.config)}

    def _list_all(self) -> Iterator[Any]:
        """Return the tasks from the first one, each of which is loaded once."""
        for index in itertools.count():
            if index == len(self._tasks):
                try:
                    self._tasks.append(next(self._rest))
                except StopIteration:
                    return
                except Exception as error:
                    raise explain_loading(error, self._package.name) from error
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


async def prepare_program(
    runtime: Any, script: str | bytes, env: dict[str, str] | None = None, *, activate: bool = True
) -> list[str]:
    """Return the command of a harness program. Raises `RuntimeError` if it needs a package that the lock lacks."""
    text = script if isinstance(script, str) else script.decode()
    block = _BLOCK.search(text)
    declared = _DEPENDENCIES.search(block["lines"]) if block else None
    needed = [Requirement(each) for each in re.findall(r'"([^"]+)"', declared[1])] if declared else []
    if missing := list_missing(needed):
        raise RuntimeError(f"a harness needs {', '.join(missing)}, which the lock of verifiers lacks")
    path = Path(runtime.scripts_dir) / f"{hashlib.sha256(text.encode()).hexdigest()}.py"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [sys.executable, str(path)]


def name_key(name: str) -> str:
    """Return the variable with the key of a seat or judge. Processes of a runtime do not inherit `API_KEY`."""
    return f"GYM_API_KEY_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"


def clear_files(before: set[Path]) -> None:
    """Remove what an attempt has left in the folder of temporary files, which is the home, too."""
    for path in set(Path(tempfile.gettempdir()).iterdir()) - before - {Path.home() / ".cache"}:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
