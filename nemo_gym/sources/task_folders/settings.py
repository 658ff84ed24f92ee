"""`task.toml` of schema 1.4 as data, with the meanings and checks of the format's own loader (Harbor 0.25).

Old spellings are mapped. Keys that are unknown are ignored, as the format's loader does; the linter reports them.
"""

from __future__ import annotations

import math
import re
import tomllib
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator

from nemo_gym.sources.task_folders.values import (
    check_destination,
    check_header,
    check_host,
    check_service,
    check_source,
    check_step_name,
    check_topology,
    fold_step_name,
    is_absolute,
    parse_size,
)

KNOWN_VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3", "1.4")
"""The versions of the format that are read. The format's own loader reads every text."""
MAIN_SERVICE: Final = "main"
"""The service in which the agent works."""
PUBLISHED: Final = "/logs/artifacts"
"""The folder that every agent may publish files in."""
_TASK_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*/[a-zA-Z0-9][a-zA-Z0-9._-]*")


class NetworkMode(StrEnum):
    """The hosts that a sandbox can reach."""

    NO_NETWORK = "no-network"
    PUBLIC = "public"
    ALLOWLIST = "allowlist"


class VerifierMode(StrEnum):
    """The sandbox in which the verifier runs: the agent's, or one of its own."""

    SHARED = "shared"
    SEPARATE = "separate"


class RewardStrategy(StrEnum):
    """The reward of a task with steps: the mean of its steps, or that of the last."""

    MEAN = "mean"
    FINAL = "final"


Host = Annotated[str, AfterValidator(check_host)]


def _check_hosts(mode: NetworkMode | None, hosts: list[str] | None) -> None:
    is_stated = hosts is not None if mode is None else bool(hosts)
    if is_stated and mode is not NetworkMode.ALLOWLIST:
        raise ValueError("allowed_hosts needs network_mode = 'allowlist'")


class PhaseNetwork(BaseModel):
    """The network of a phase, where it differs from the environment's."""

    network_mode: NetworkMode | None = None
    allowed_hosts: list[Host] | None = None

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        _check_hosts(self.network_mode, self.allowed_hosts)
        return self


class Author(BaseModel):
    name: str
    email: str | None = None


class Package(BaseModel):
    """The table `[task]`: the name under which a task is published."""

    name: str
    version: str | None = Field(default=None, min_length=1)
    description: str = ""
    authors: list[Author] = Field(default_factory=list)
    keywords: list[str] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _TASK_NAME.fullmatch(name.removesuffix("\n")) or ".." in name:
            raise ValueError(f"the name of a task is 'organization/name', not {name!r}")
        return name


class SolutionSettings(BaseModel):
    env: dict[str, str] = Field(default_factory=dict)


class AgentSettings(PhaseNetwork):
    timeout_sec: float | None = None
    """None for no limit."""
    user: str | int | None = None


class HealthCheckSettings(BaseModel):
    """A command that has to succeed before the agent begins."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    """Seconds from the start in which failures do not count."""
    start_interval_sec: float = 5.0
    retries: int = 3
    """Consecutive failures after which it has failed."""


class Tpu(BaseModel):
    type: str = Field(min_length=1)
    topology: Annotated[str, AfterValidator(check_topology)]


class McpServer(BaseModel):
    """An MCP server that the agent may use."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            check_header(name, value)
        return headers

    @field_validator("transport", mode="before")
    @classmethod
    def _map_transport(cls, transport: Any) -> Any:
        return "streamable-http" if transport == "http" else transport

    @model_validator(mode="after")
    def _check_transport(self) -> Self:
        if self.transport == "stdio":
            if not self.command or self.headers:
                raise ValueError("an MCP server with transport 'stdio' has a command, and no headers")
        elif not self.url:
            raise ValueError(f"an MCP server with transport {self.transport!r} has a url")
        return self


class EnvironmentSettings(BaseModel):
    """The table `[environment]`, or `[verifier.environment]`."""

    network_mode: NetworkMode = NetworkMode.PUBLIC
    allowed_hosts: list[Host] | None = None
    build_timeout_sec: float = 600.0
    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: int | float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: list[str] | None = None
    tpu: Tpu | None = None
    mcp_servers: list[McpServer] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = None
    healthcheck: HealthCheckSettings | None = None
    workdir: str | None = None
    allow_internet: bool | None = Field(default=None, exclude=True)
    """The old spelling of `network_mode`."""

    @model_validator(mode="before")
    @classmethod
    def _map_old_sizes(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        data = dict(data)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            value = data.pop(old, None)
            if isinstance(value, str):
                size = parse_size(value)
                if data.setdefault(new, size) != size:
                    raise ValueError(f"{old} = {value!r} and {new} = {data[new]!r} differ")
        return data

    @field_validator("os", mode="before")
    @classmethod
    def _fold_os(cls, system: Any) -> Any:
        return system.lower() if isinstance(system, str) else system

    @field_validator("cpus")
    @classmethod
    def _check_cpus(cls, cpus: int | float | None) -> int | float | None:
        if isinstance(cpus, float):
            if not math.isfinite(cpus):
                raise ValueError(f"cpus must be finite, not {cpus}")
            return int(cpus) if cpus.is_integer() else cpus
        return cpus

    @model_validator(mode="after")
    def _check_network(self) -> Self:
        _check_hosts(self.network_mode, self.allowed_hosts)
        is_stated = "network_mode" in self.model_fields_set or self.allowed_hosts is not None
        if self.allow_internet is not None and not is_stated:
            self.network_mode = NetworkMode.PUBLIC if self.allow_internet else NetworkMode.NO_NETWORK
        return self


class CollectHook(BaseModel):
    """A command that runs after the agent and before artifacts are collected."""

    command: str
    service: str = MAIN_SERVICE
    timeout_sec: float = 60.0
    user: str | int | None = None

    _check_service = field_validator("service")(check_service)


class VerifierSettings(PhaseNetwork):
    timeout_sec: float = 600.0
    env: dict[str, str] = Field(default_factory=dict)
    user: str | int | None = None
    environment_mode: VerifierMode | None = None
    environment: EnvironmentSettings | None = None
    collect: list[CollectHook] = Field(default_factory=list)

    @model_validator(mode="after")
    def _check_mode(self) -> Self:
        if self.environment_mode is VerifierMode.SHARED and self.environment is not None:
            raise ValueError("environment_mode = 'shared' excludes [verifier.environment]")
        return self

    @property
    def stated_mode(self) -> VerifierMode | None:
        """The mode that is stated, or follows from an environment; None if the task decides."""
        is_implied = self.environment is not None and self.environment_mode is None
        return VerifierMode.SEPARATE if is_implied else self.environment_mode


class Artifact(BaseModel):
    """A file or folder of the sandbox that is kept, and that a separate verifier gets."""

    source: Annotated[str, AfterValidator(check_source)]
    destination: Annotated[str | None, AfterValidator(check_destination)] = None
    exclude: list[str] = Field(default_factory=list)
    """Patterns of `tar --exclude`."""
    service: Annotated[str | None, AfterValidator(check_service)] = None

    @property
    def place(self) -> PurePosixPath:
        """Its place below the folder of all artifacts."""
        parts = PurePosixPath(self.destination or self.source).parts
        return PurePosixPath(*(part for part in parts if part not in ("/", "..")))

    def overlaps(self, other: Artifact) -> bool:
        """Return whether one of two artifacts lies at the place of the other, or below it."""
        return self.place.is_relative_to(other.place) or other.place.is_relative_to(self.place)

    @model_validator(mode="after")
    def _check_absolute(self) -> Self:
        if self.service not in (None, MAIN_SERVICE) and not is_absolute(self.source):
            raise ValueError(
                f"the artifact {self.source!r} of service {self.service!r} needs an absolute path"
            )
        return self


class StepSettings(BaseModel):
    """One of `[[steps]]`."""

    name: Annotated[str, AfterValidator(check_step_name)]
    agent: AgentSettings = Field(default_factory=AgentSettings)
    verifier: VerifierSettings = Field(default_factory=VerifierSettings)
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthCheckSettings | None = None
    artifacts: list[str | Artifact] = Field(default_factory=list)


class TaskSettings(BaseModel):
    """A whole `task.toml`."""

    schema_version: str = "1.4"
    task: Package | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    verifier: VerifierSettings = Field(default_factory=VerifierSettings)
    agent: AgentSettings = Field(default_factory=AgentSettings)
    environment: EnvironmentSettings = Field(default_factory=EnvironmentSettings)
    solution: SolutionSettings = Field(default_factory=SolutionSettings)
    source: str | None = None
    multi_step_reward_strategy: RewardStrategy | None = None
    steps: list[StepSettings] | None = None
    artifacts: list[str | Artifact] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _map_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and "version" in data:
            data = dict(data)
            data.setdefault("schema_version", data.pop("version"))
        return data

    @field_validator("steps")
    @classmethod
    def _check_steps(cls, steps: list[StepSettings] | None) -> list[StepSettings] | None:
        names = [fold_step_name(step.name) for step in steps or ()]
        if len(names) != len(set(names)):
            raise ValueError("the names of steps must differ, in capitals and accents, too")
        return steps

    @model_validator(mode="after")
    def _check_artifact_sources(self) -> Self:
        entries = [*self.artifacts, *(each for step in self.steps or () for each in step.artifacts)]
        for entry in entries:
            if isinstance(entry, str):
                check_source(entry)
        return self

    def find_mode(self, step: StepSettings | None = None) -> VerifierMode:
        """Return the mode of the verifier, or of a step's: the step's, else the task's, else shared."""
        of_step = step.verifier.stated_mode if step is not None else None
        return of_step or self.verifier.stated_mode or VerifierMode.SHARED

    def find_agent(self, step: StepSettings | None) -> AgentSettings:
        """Return the settings of the agent in a step: its own before the task's."""
        own = () if step is None else step.agent
        return self.agent.model_copy(update={name: value for name, value in own if value is not None})

    def find_verifier(self, step: StepSettings | None) -> VerifierSettings:
        """Return the settings of the verifier of a step: its own limit, the hooks and variables of both."""
        task = self.verifier
        if step is None:
            return task
        own = step.verifier
        user = own.user if own.user is not None else task.user
        both = {"env": {**task.env, **own.env}, "collect": [*task.collect, *own.collect]}
        return own.model_copy(update={"user": user, **both})


def parse_settings(text: str) -> TaskSettings:
    """Parse `task.toml`. Raises ValueError (of TOML or pydantic) with every fault."""
    return TaskSettings.model_validate(tomllib.loads(text))


def list_artifacts(settings: TaskSettings, step: StepSettings | None = None) -> list[Artifact]:
    """Return the artifacts of a task or step, with `/logs/artifacts` first unless it is named."""
    entries = [*settings.artifacts, *(step.artifacts if step is not None else ())]
    found = [Artifact(source=each) if isinstance(each, str) else each for each in entries]
    is_named = any(
        each.source.rstrip("/") == PUBLISHED and (each.service or MAIN_SERVICE) == MAIN_SERVICE
        for each in found
    )
    return found if is_named else [Artifact(source=PUBLISHED), *found]
