"""Sandboxes as data: their specification, handle, state and endpoints, and the results of their commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, ValidationError

from nemo_gym.config.pydantic_problems import find_faults
from nemo_gym.failures import SandboxError

NO_EXIT_CODE = 125
"""The return code of a command that the sandbox killed, or could not run."""


class SandboxStatus(StrEnum):
    """The state of a sandbox, as its provider reports it."""

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    ERROR = "error"
    UNKNOWN = "unknown"


class SandboxCreateError(SandboxError, RuntimeError):
    """A provider could not create a sandbox as specified.

    A new attempt may succeed. With `retryable=False` it cannot: the specification asks for what the provider lacks.
    """

    def __init__(
        self, message: object = "the sandbox is not created", *, code: str = "create_failed", **details: Any
    ) -> None:
        super().__init__(str(message), code=code, **details)


class SandboxStartError(SandboxCreateError, OSError):
    """The start of a sandbox failed by an error of the operating system or the network."""


class SandboxCreateVerificationError(SandboxCreateError):
    """A new sandbox did not pass the provider's readiness probe."""


class SandboxPtyError(RuntimeError):
    """A terminal session ended in another way than by the exit of its program."""


class _ResourceFields(BaseModel, extra="ignore", coerce_numbers_to_str=True, allow_inf_nan=False):
    """The types of `SandboxResources`."""

    cpu: NonNegativeFloat | None
    memory_mib: NonNegativeInt | None
    disk_gib: NonNegativeInt | None
    gpu: NonNegativeInt | None
    gpu_type: str | None


_VariableName = Annotated[str, Field(pattern=r"^[^=\x00]+$")]
_Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
_Port = Annotated[int, Field(ge=1, le=65535)]


class _SpecFields(BaseModel, extra="ignore", allow_inf_nan=False):
    """The types of the fields of `SandboxSpec` that every provider reads in the same way."""

    ttl_s: PositiveFloat | None
    ready_timeout_s: PositiveFloat | None
    env: dict[_VariableName, _Text]
    files: dict[Any, str]
    entrypoint: list[_Text] | None
    ports: tuple[_Port, ...]


@dataclass(frozen=True)
class SandboxResources:
    """The resources that a sandbox requests; None or 0 leaves one to the provider.

    Raises ValueError naming every value that is no such number.
    """

    cpu: float | None = None
    memory_mib: int | None = None
    disk_gib: int | None = None
    gpu: int | None = None
    gpu_type: str | None = None

    def __post_init__(self) -> None:
        _check_fields(self, _ResourceFields)

    @classmethod
    def from_mapping(cls, resources: Mapping[str, Any] | None) -> SandboxResources:
        """Read resources from a configuration. Raises ValueError naming unknown keys or wrong values."""
        given = dict(resources or {})
        unknown = sorted(given.keys() - {known.name for known in fields(cls)})
        if unknown:
            raise ValueError(f"unknown sandbox resources: {', '.join(unknown)}")
        return cls(**given)


@dataclass(frozen=True)
class SandboxEndpoint:
    """A service in a sandbox, as callers outside reach it."""

    endpoint: str
    """An absolute URL."""
    headers: dict[str, str] = field(default_factory=dict)
    """Headers that the provider requires of every request."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.endpoint)
        if not (parts.scheme and parts.hostname):
            raise ValueError(f"the endpoint of a sandbox must be an absolute URL, not {self.endpoint!r}")


@dataclass(frozen=True)
class SandboxSpec:
    """The specification of a sandbox to create.

    Times are in seconds. A provider refuses fields that it cannot honour, or logs a warning where the sandbox is the
    same without them. Raises ValueError naming every value that no provider could honour.
    """

    image: str | None = None
    ttl_s: float | None = None
    """The lifetime, after which the sandbox ends by itself; None for no limit."""
    ready_timeout_s: float | None = None
    """The limit of the start, the download of the image included; None for the provider's own."""
    workdir: str | None = None
    """The folder in which commands run, made if it is missing. An absolute path."""
    env: dict[str, str] = field(default_factory=dict)
    """The environment variables of every command."""
    files: dict[str, str] = field(default_factory=dict)
    """Path → text of the files to write before the first command."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Labels of the sandbox, by which its operator finds it."""
    resources: SandboxResources | Mapping[str, Any] = field(default_factory=SandboxResources)
    entrypoint: list[str] | None = None
    """The program that keeps the sandbox running, instead of the provider's."""
    provider_options: dict[str, Any] = field(default_factory=dict)
    """Further options, which one provider knows."""
    ports: tuple[int, ...] = ()
    """The TCP ports of services in the sandbox that `endpoint` is asked for."""

    def __post_init__(self) -> None:
        if not isinstance(self.resources, SandboxResources):
            object.__setattr__(self, "resources", SandboxResources.from_mapping(self.resources))
        _check_fields(self, _SpecFields)


@dataclass
class SandboxHandle:
    """A created sandbox."""

    sandbox_id: str
    provider_name: str
    raw: Any
    """The provider's own object for the sandbox."""


@dataclass(frozen=True)
class SandboxExecResult:
    """The result of a command in a sandbox."""

    stdout: str | None
    stderr: str | None
    return_code: int
    error_type: str | None = None
    """The reason why the command has no exit code of its own, such as `timeout`; None where it has one."""


ExecResult: TypeAlias = SandboxExecResult
"""The ecosystem's older name."""


@dataclass(frozen=True)
class SandboxPtySpec:
    """The specification of a terminal session in a sandbox."""

    command: str | None = None
    """None for the shell itself."""
    cwd: str | None = None
    env: dict[str, str] | None = None
    rows: int = 24
    cols: int = 80
    user: str | int | None = None
    pty: bool = True
    """False for pipes: there is no terminal, and stderr is a stream of its own."""


def _check_fields(data: SandboxResources | SandboxSpec, model: type[BaseModel]) -> None:
    """Convert the fields of `data` to the types of `model`. Raises ValueError naming every wrong one."""
    given = vars(data)
    try:
        checked = model.model_validate(given)
    except ValidationError as error:
        faults = [fault.message for fault in find_faults(error, model, given, ())]
        raise ValueError(f"the {type(data).__name__} is wrong: {' '.join(faults)}") from None
    for name, value in checked:
        object.__setattr__(data, name, value)
