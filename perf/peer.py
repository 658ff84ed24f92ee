"""Whole commands of this gym beside those of an installed reference, by turns, with the same tasks and engine stub.

    python -m perf peer +reference=/path/to/its/environment/bin/python

Each side starts its servers with its own `ng_run` and collects with its own `ng_collect_rollouts`, both found beside
its interpreter. A rate is that of the whole command: rows divided by the seconds from its start to its exit. Inline,
ours is one command that starts the servers as well, and the reference, which has no such placement, is as before.

The servers' CPU and memory are those of `ng_run` and all processes below it, of which the reference has some of Ray.
Memory is proportional, so that shared pages count once, and is taken after the collection. The collector's is its peak.
A side that does not bring all rows with the reward 1 has a failure in the place of its figures.
"""

from __future__ import annotations

import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import psutil
from packaging.specifiers import SpecifierSet
from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import EngineProcess
from perf.episodes import EPISODES, Episode, calling_episode
from perf.measure import Figures, cpu_s, family_of, medians, memory_mb, tell
from perf.rollouts import engine_of, overrides

_IDS = "++policy_model.responses_api_models.vllm_model.return_token_id_information=true"
_PACKED = "++policy_model.responses_api_models.vllm_model.token_fields=packed"
_STEPS = "++example_single_tool_call_simple_agent.responses_api_agents.simple_agent.max_steps=100"
_READY = re.compile(r"servers (?:are )?ready\b(?!\.)", re.IGNORECASE)
_START_WITHIN_S, _COLLECT_WITHIN_S, _STOP_WITHIN_S = 180.0, 3_600.0, 30.0
_QUOTED = 2_000
_HIGHER_IS_BETTER = ("rollouts_per_s",)


class Case(NamedTuple):
    """One comparison."""

    episode: Episode
    rollouts: int
    in_flight: int
    both: Sequence[str] = ()
    """Keys of both sides."""
    ours: Sequence[str] = ()
    """Further keys of ours."""
    is_inline: bool = False


_WITH_IDS = {turns: calling_episode(turns, tokens=tokens) for turns, tokens in ((20, 600), (100, 1_000))}
CASES: Mapping[str, Case] = {
    "tool-calling": Case(EPISODES["tool-calling"], 8_000, 256),
    "tool-calling, inline": Case(EPISODES["tool-calling"], 8_000, 256, is_inline=True),
    "20 turns with ids": Case(_WITH_IDS[20], 512, 32, (_IDS,)),
    "20 turns with ids, packed": Case(_WITH_IDS[20], 512, 32, (_IDS,), (_PACKED,)),
    "20 turns with ids, packed, inline": Case(_WITH_IDS[20], 512, 32, (_IDS,), (_PACKED,), is_inline=True),
    "100 turns with ids": Case(_WITH_IDS[100], 4, 4, (_IDS, _STEPS)),
    "100 turns with ids, packed": Case(_WITH_IDS[100], 4, 4, (_IDS, _STEPS), (_PACKED,)),
}


class BenchKeys(Keys):
    reference: Path = Field(
        description="The interpreter of the environment that the reference is installed in."
    )
    cases: list[str] | None = Field(None, description=f"Of: {'; '.join(CASES)}.")
    rollouts: int | None = Field(None, ge=1, description="Number of rollouts, instead of each case's own.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return figures of both sides by case, medians of `runs` turns, and the medians of the ratios of each turn.

    Raises `ConfigError` for an unknown case, or an environment without the commands.
    """
    ours, reference = Side.find(Path(sys.executable)), Side.find(keys.reference)
    if unknown := set(keys.cases or ()) - set(CASES):
        raise ConfigError(
            f"there is no case {', '.join(sorted(unknown))}", code="unknown_case", remedy=_list_cases()
        )
    figures: Figures = {"reference": reference.describe()}
    for name in keys.cases or CASES:
        case = CASES[name]
        case = case._replace(rollouts=keys.rollouts or case.rollouts)
        turns = []
        for number in range(1, runs + 1):
            tell(f"{name}: turn {number} of {runs}")
            turns.append((measure(ours, case), measure(reference, case._replace(ours=(), is_inline=False))))
        figures[name] = compare_turns(turns)
    return figures


def _list_cases() -> str:
    return f"Cases: {'; '.join(CASES)}."


def compare_turns(turns: Sequence[tuple[Figures, Figures]]) -> Figures:
    """Return both sides' medians and the ratios: how many times the reference's figure is better in ours.

    Turns in which a side failed have no ratios, and the first failure is shown.
    """
    sides = {
        side: next((each for each in results if "failure" in each), None) or medians(results)
        for side, results in zip(("ours", "reference"), zip(*turns, strict=True), strict=True)
    }
    if any("failure" in side for side in sides.values()):
        return sides
    ratios = {
        f"times_{name}": statistics.median(_divide(name, here[name], there[name]) for here, there in turns)
        for name in turns[0][0]
        if all(there[name] and here[name] for here, there in turns)
    }
    return {**sides, "ratios": ratios}


def _divide(name: str, ours: float, reference: float) -> float:
    return ours / reference if name in _HIGHER_IS_BETTER else reference / ours


# --- A side -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """An installed gym."""

    python: Path
    version: str
    python_version: str
    requires_python: str
    folder: Path
    """The folder of its servers' folders."""
    is_ours: bool = False
    venv_keys: tuple[str, ...] = field(default=())

    @classmethod
    def find(cls, python: Path) -> Side:
        """Ask the interpreter. Raises `ConfigError` if it has no gym, or an environment lacks its commands."""
        told = (
            subprocess.run([python, "-I", "-c", _ABOUT], capture_output=True, text=True, check=False)
            if python.exists()
            else None
        )
        if told is None or told.returncode:
            raise ConfigError(
                f"{python}: {'no such file' if told is None else 'it cannot import nemo_gym'}",
                code="no_reference",
                remedy="Name the interpreter of an environment in which the reference is installed: .../bin/python.",
            )
        about = orjson.loads(told.stdout)
        if missing := [
            name for name in ("ng_run", "ng_collect_rollouts") if not (python.parent / name).exists()
        ]:
            raise ConfigError(
                f"{python.parent} has no {' and no '.join(missing)}",
                code="no_reference",
                remedy="Name the interpreter inside of the environment's `bin`, where its commands are.",
            )
        return cls(
            python,
            about["version"],
            about["python"],
            about["requires"] or "",
            Path(about["folder"]),
            about["is_ours"],
        )

    def describe(self) -> dict[str, Any]:
        """Return its version and its interpreter's, and whether the package allows it."""
        return {
            "version": self.version,
            "python": self.python_version,
            "requires_python": self.requires_python,
            "is_python_allowed": self.python_version in SpecifierSet(self.requires_python),
        }

    def command(self, name: str, *arguments: str) -> list[str]:
        return [str(self.python.parent / name), *arguments]

    def write_venvs(self, folder: Path, servers: Sequence[str]) -> list[str]:
        """Return the keys by which servers run in this environment, and not in one each that a start builds."""
        if self.is_ours:
            return []
        for server in servers:
            place = folder / "venvs" / server / ".venv"
            place.parent.mkdir(parents=True)
            place.symlink_to(self.python.parent.parent, target_is_directory=True)
        return ["+skip_venv_if_present=true", f"+uv_venv_dir={folder / 'venvs'}"]


_ABOUT = """
import json, platform, pathlib, importlib.metadata as metadata
import nemo_gym
about = metadata.metadata("nemo-gym")
folder = pathlib.Path(nemo_gym.__path__[0])
print(json.dumps({
    "version": about["Version"], "requires": about["Requires-Python"], "python": platform.python_version(),
    "folder": str(folder.parent), "is_ours": (folder / "rows").is_dir(),
}))
"""


def measure(side: Side, case: Case) -> Figures:
    """Return the figures of one whole collection, or its failure."""
    with (
        engine_of(case.episode, 0.0) as engine,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
    ):
        folder = Path(name)
        (folder / "tasks.jsonl").write_bytes((case.episode.body() + b"\n") * case.rollouts)
        try:
            return (
                _measure_inline(side, case, engine, folder)
                if case.is_inline
                else _measure(side, case, engine, folder)
            )
        except SideError as error:
            return {"failure": str(error)}


class SideError(Exception):
    """A command of a side failed, or brought too few rows."""


def _measure(side: Side, case: Case, engine: EngineProcess, folder: Path) -> Figures:
    port = _find_free_port()
    with _running_servers(side, case, engine, folder, port) as servers:
        processes = family_of(servers.pid)
        before, stub_before = cpu_s(processes), cpu_s([psutil.Process(engine.pid)])
        command = side.command(
            "ng_collect_rollouts",
            *_collect_keys(case, folder),
            "++head_server.host=127.0.0.1",
            f"++head_server.port={port}",
        )
        used = _run_whole(command, folder)
        processes = family_of(servers.pid)
        figures = _count(case, folder, used)
        figures["servers_cpu_ms"] = 1e3 * (cpu_s(processes) - before) / case.rollouts
        figures["servers_memory_mb"] = memory_mb(processes)
        figures["engine_cpu_ms"] = 1e3 * (cpu_s([psutil.Process(engine.pid)]) - stub_before) / case.rollouts
        return figures


def _measure_inline(side: Side, case: Case, engine: EngineProcess, folder: Path) -> Figures:
    stub_before = cpu_s([psutil.Process(engine.pid)])
    command = side.command(
        "ng_e2e_collect_rollouts", *overrides(case.episode, engine), *case.both, *case.ours,
        *_collect_keys(case, folder), "+placement=inline", "++head_server.port=0",
    )  # fmt: skip
    figures = _count(case, folder, _run_whole(command, folder))
    figures["servers_cpu_ms"] = figures.pop("collector_cpu_ms")  # they are one process
    figures["servers_memory_mb"] = figures.pop("collector_memory_mb")
    figures["engine_cpu_ms"] = 1e3 * (cpu_s([psutil.Process(engine.pid)]) - stub_before) / case.rollouts
    return figures


def _collect_keys(case: Case, folder: Path) -> list[str]:
    return [
        f"+agent_name={case.episode.agent}",
        f"+input_jsonl_fpath={folder / 'tasks.jsonl'}",
        f"+output_jsonl_fpath={folder / 'rollouts.jsonl'}",
        "+num_repeats=1",
        f"+num_samples_in_parallel={case.in_flight}",
    ]


class _Used(NamedTuple):
    seconds: float
    cpu_s: float
    peak_mb: float


def _run_whole(command: Sequence[str], folder: Path) -> _Used:
    began = time.perf_counter()
    with (folder / "collect.log").open("w+b") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
    if process.returncode:
        raise SideError(f"exit code {process.returncode}: {_quote(folder / 'collect.log')}")
    return _Used(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3)


def _count(case: Case, folder: Path, used: _Used) -> Figures:
    """Return the figures of the command. Raises `SideError` if a row is missing or is not scored 1."""
    path = folder / "rollouts.jsonl"
    found = 0
    with path.open("rb") as rows:
        for line in rows:
            found += orjson.loads(line)["reward"] == 1.0
    if found != case.rollouts:
        raise SideError(f"{found} rows of {case.rollouts} are scored 1: {_quote(folder / 'collect.log')}")
    return {
        "rollouts_per_s": case.rollouts / used.seconds,
        "collector_cpu_ms": 1e3 * used.cpu_s / case.rollouts,
        "collector_memory_mb": used.peak_mb,
        "row_kb": path.stat().st_size / case.rollouts / 1e3,
    }


@contextmanager
def _running_servers(
    side: Side, case: Case, engine: EngineProcess, folder: Path, port: int
) -> Iterator[subprocess.Popen[bytes]]:
    servers = [
        f"resources_servers/{case.episode.environment}",
        "responses_api_agents/simple_agent",
        "responses_api_models/vllm_model",
        "environment_servers/legacy_agent",
    ]
    command = side.command(
        "ng_run", *overrides(case.episode, engine), *case.both, *case.ours, *side.write_venvs(folder, servers),
        "++head_server.host=127.0.0.1", f"++head_server.port={port}",
    )  # fmt: skip
    log = folder / "servers.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, cwd=folder, stdout=written, stderr=written, start_new_session=True
        )
    try:
        _wait_ready(process, log)
        yield process
    finally:
        _stop(process)


def _wait_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_WITHIN_S
    while not any(_is_ready(line) for line in log.read_text(errors="replace").splitlines()):
        if process.poll() is not None or time.monotonic() > until:
            raise SideError(f"its servers are not ready: {_quote(log)}")
        time.sleep(0.1)


def _is_ready(line: str) -> bool:
    return _READY.search(line) is not None


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the servers as Ctrl-C does, and then all processes of theirs that are left."""
    family = family_of(process.pid) if process.poll() is None else []
    process.send_signal(2)
    try:
        process.wait(_STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for left in psutil.wait_procs(family, timeout=2)[1]:
        left.kill()


def _find_free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def _quote(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-_QUOTED:]
