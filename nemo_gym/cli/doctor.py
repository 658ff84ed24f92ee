"""`ng_doctor`: what this machine has for a gym, and what to do about the rest."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.tables import hang_text, terminal_width

EXTRAS: Mapping[str, tuple[str, str]] = {
    "math": ("math-verify", "symbolic equality of answers (math_with_judge)"),
    "reasoning-gym": ("reasoning-gym", "generated reasoning tasks and their scorers"),
    "benchmarks": ("datasets", "the scripts that prepare benchmarks"),
    "hub": ("huggingface_hub", "datasets from and to the Hugging Face hub"),
    "vllm": ("vllm", "the inference engine, for local_vllm_model"),
    "export": ("pyarrow", "Parquet files of gym eval export"),
    "pandas": ("pandas", "data frames of `evaluate`"),
    "wandb": ("wandb", "metrics of a run by +track=wandb"),
    "mlflow": ("mlflow", "metrics of a run by +track=mlflow"),
    "trackio": ("trackio", "metrics of a run by +track=trackio"),
    "tensorboard": ("tensorboardX", "metrics of a run by +track=tensorboard"),
    "opentelemetry": ("opentelemetry-sdk", "traces of rollouts"),
    "mcp": ("mcp", "tools of MCP servers as the tools of an environment"),
    "ray": ("ray", "servers on the nodes of a Ray cluster, +placement=ray"),
    "train": ("trl", "TRL trainers on exports and rollouts"),
}
"""Extra → its first package and its purpose."""
OPEN_FILES = 4096
"""Enough open files for a thousand rollouts in flight: a socket or two for each, in each process."""
_WIDTH = 21
_CONTAINERS = ("docker", "podman", "apptainer")


class MachineFact(NamedTuple):
    """One fact about this machine."""

    subject: str
    fact: str
    remedy: str | None = None
    """The remedy, if something is amiss or could be better."""
    is_fatal: bool = False


class DoctorKeys(Keys):
    policy_base_url: str | list[str] | None = Field(
        None, description="The URL of an engine to reach, by default that in env.yaml."
    )
    policy_api_key: str | None = Field(None, description="Its API key.")
    as_json: bool = Field(False, alias="json", description="Print JSON instead of text.")


COMMAND = Command(
    name="ng_doctor",
    summary="Show what this machine has for a gym (Python, sandbox, limits, engine), and what to do.",
    example="ng_doctor +policy_base_url=http://localhost:8000/v1",
    keys=DoctorKeys,
    exit_codes={
        ExitCode.COMPLETE: "a gym can run",
        ExitCode.FATAL: "something is missing",
        ExitCode.BAD_INPUT: "wrong usage",
    },
)


def examine(keys: DoctorKeys) -> int:
    from nemo_gym.cli.command import several

    urls = several(keys.policy_base_url or [])
    engines = [_engine(url, keys.policy_api_key) for url in urls]
    found = [
        *_machine(),
        _isolation(),
        _containers(),
        _providers(),
        *_extras(),
        *_foreign(),
        *_gyms(),
        *engines,
    ]
    if not urls:
        found.append(
            MachineFact("engine", "no URL is set", "Set policy_base_url in env.yaml, or write --url URL.")
        )
    if keys.as_json:
        print(json.dumps([each._asdict() for each in found], indent=2))
    else:
        print("\n".join(line for each in found for line in _lines(each)))
    return ExitCode.FATAL if any(each.is_fatal for each in found) else ExitCode.COMPLETE


def _lines(finding: MachineFact) -> Iterator[str]:
    yield from hang_text(finding.subject, finding.fact, _WIDTH, terminal_width())
    if finding.remedy:
        yield from hang_text("", f"-> {finding.remedy}", _WIDTH, terminal_width())


def _machine() -> Iterator[MachineFact]:
    import psutil

    from nemo_gym import PARENT_DIR, __version__
    from nemo_gym.processes.cpus import usable_cpus

    yield MachineFact("gym", f"{__version__} in {PARENT_DIR}")
    yield MachineFact("python", f"{platform.python_version()} ({sys.executable})")
    memory = psutil.virtual_memory().total / 1e9
    yield MachineFact("machine", f"{usable_cpus():g} cores, {memory:.0f} GB of memory")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = soft < OPEN_FILES
    remedy = f"Raise the limit for many rollouts in flight: ulimit -n {min(65536, max(hard, OPEN_FILES))}"
    yield MachineFact("open files", f"{soft:,}", remedy if few else None)
    writable = os.access(Path.cwd(), os.W_OK)
    fact = "can be written" if writable else "cannot be written"
    yield MachineFact(
        "folder", f"{Path.cwd()} {fact}", None if writable else "Change the folder.", not writable
    )


def _isolation() -> MachineFact:
    from nemo_gym.failures import ConfigError
    from nemo_gym.isolation.execution import ConfinedRunner
    from nemo_gym.isolation.memory import DELEGATION, can_limit_memory
    from nemo_gym.isolation.python_installation import PythonInstallation

    try:
        described = asyncio.run(ConfinedRunner.from_python(PythonInstallation.from_gym()).describe())
    except ConfigError as error:
        return MachineFact("sandbox", error.failure.message, error.failure.remedy)
    remedy = None if can_limit_memory() else DELEGATION
    return MachineFact("sandbox", f"code of models runs in {described}", remedy)


def _containers() -> MachineFact:
    found = [name for name in _CONTAINERS if shutil.which(name)]
    remedy = None if found else f"Environments with containers need one of {', '.join(_CONTAINERS)}."
    fact = f"{' and '.join(found)} on the PATH, not tried" if found else "none"
    return MachineFact("containers", fact, remedy)


def _providers() -> MachineFact:
    from nemo_gym.failures import ConfigError
    from nemo_gym.sandbox.providers.registry import list_providers

    try:
        return MachineFact("sandbox providers", ", ".join(list_providers()))
    except ConfigError as error:
        return MachineFact("sandbox providers", error.failure.message, error.failure.remedy)


def _extras() -> Iterator[MachineFact]:
    absent = []
    for extra, (package, purpose) in EXTRAS.items():
        try:
            yield MachineFact(f"extra {extra}", f"{package} {version(package)}: {purpose}")
        except PackageNotFoundError:
            absent.append(extra)
            yield MachineFact(f"extra {extra}", f"not installed: {purpose}")
    if absent:
        yield MachineFact(
            "absent extras", ", ".join(absent), f"If needed: pip install '{_source()}[{absent[0]}]'"
        )


def _foreign() -> Iterator[MachineFact]:
    """Yield whether environments of other projects can run, by kind."""
    from nemo_gym.failures import ConfigError
    from nemo_gym.sources.foreign.kinds import KINDS
    from nemo_gym.sources.foreign.venvs import Venvs

    for kind in KINDS.values():
        subject = f"kind {kind.name}"
        try:
            python = Venvs().find_python(kind)
        except ConfigError as error:
            yield MachineFact(subject, error.failure.message, error.failure.remedy)
            continue
        try:
            yield MachineFact(subject, f"{kind.title}: installed, {Venvs().find(kind)}")
        except ConfigError:
            told = f"{kind.title}: not installed; its first run installs it on {python}, with network"
            yield MachineFact(subject, told, f"If needed: gym env prefetch {kind.name}")


def _source() -> str:
    """Return the checkout or the wheel that the gym was installed from; `the wheel` if pip has not recorded it."""
    try:
        recorded = json.loads(distribution("nemo_gym").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # it was never installed
        recorded = {}
    return url2pathname(urlsplit(recorded.get("url", "")).path) or "the wheel"


def _gyms() -> Iterator[MachineFact]:
    from nemo_gym.launch.records import Registry

    for gym in Registry().list_running():
        yield MachineFact("running", f"a gym of pid {gym.run.pid} in {gym.directory} (gym env status)")


def _engine(url: str, api_key: str | None) -> MachineFact:
    from nemo_gym.engines.engine import UpstreamEngine
    from nemo_gym.failures import GymError
    from nemo_gym.transport import HttpTransport

    async def models() -> list[str]:
        transport = HttpTransport()
        try:
            engine = UpstreamEngine(url, api_key=api_key, transport=transport)
            return [str(entry.get("id")) for entry in await engine.preflight(None)]
        finally:
            await transport.close()

    try:
        names = asyncio.run(models())
    except GymError as error:
        return MachineFact("engine", error.failure.message, error.failure.remedy, is_fatal=True)
    return MachineFact("engine", f"{url} serves {', '.join(names) or 'models that it does not list'}")


main = COMMAND.entry_point(examine)
