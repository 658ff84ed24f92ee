"""The part of the Compose format that sandboxes can honour."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from nemo_gym.config.yaml_text import load_yaml

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_MIB = 1 << 20


def _seconds(value: object) -> float:
    """Seconds of a Compose duration such as `1m30s`."""
    text = str(value)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 1m30s")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _words(value: object) -> object:
    return shlex.split(value) if isinstance(value, str) else value


def _variables(value: object) -> object:
    """A mapping of variables or labels, which Compose also accepts as a list of `name=value`."""
    if isinstance(value, list):
        return dict(str(line).split("=", 1) for line in value)
    if isinstance(value, dict):
        return {name: "" if text is None else str(text) for name, text in value.items()}
    return value


def _dependencies(value: object) -> object:
    return {name: {} for name in value} if isinstance(value, list) else value


def _ports(value: object) -> object:
    """Container ports. Fixed ports of this machine cannot be promised to several sandboxes."""
    if not isinstance(value, list):
        return value
    ports = [str(port).removesuffix("/tcp") for port in value]
    odd = [port for port in ports if not port.isdigit()]
    if odd:
        raise ValueError(f"only TCP ports of the container can be given, not {', '.join(odd)}")
    return [int(port) for port in ports]


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
Words = Annotated[list[str], BeforeValidator(_words)]
Variables = Annotated[dict[str, str], BeforeValidator(_variables)]
Ports = Annotated[list[int], BeforeValidator(_ports)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ComposeHealthcheck(_Strict):
    """A command that succeeds once a service is healthy."""

    test: list[str] | str
    interval: Seconds = 1.0
    timeout: Seconds = 30.0
    retries: int = Field(3, gt=0)
    start_period: Seconds = 0.001

    @property
    def command(self) -> str | None:
        """The shell command; None for a check that the file switches off."""
        if isinstance(self.test, str):
            return self.test
        match self.test:
            case ["NONE"]:
                return None
            case ["CMD-SHELL", command]:
                return command
            case ["CMD", *words]:
                return shlex.join(words)
        raise ValueError(f"a healthcheck starts with CMD or CMD-SHELL, not {self.test!r}")


class ComposeDependency(_Strict):
    """The state of another service that a service waits for."""

    condition: Literal["service_started", "service_healthy", "service_completed_successfully"] = (
        "service_started"
    )


class ComposeService(_Strict):
    """A service. Its image is built, and its command is complete."""

    image: str
    command: Words = Field(default_factory=list)
    entrypoint: Words = Field(default_factory=list)
    environment: Variables = Field(default_factory=dict)
    labels: Variables = Field(default_factory=dict)
    working_dir: str | None = None
    user: str | None = None
    hostname: str | None = None
    depends_on: Annotated[dict[str, ComposeDependency], BeforeValidator(_dependencies)] = Field(
        default_factory=dict
    )
    healthcheck: ComposeHealthcheck | None = None
    expose: Ports = Field(default_factory=list)
    ports: Ports = Field(default_factory=list)
    cpus: float | None = None
    mem_limit: int | None = None
    """Bytes."""

    @property
    def program(self) -> list[str]:
        """The command line of the service."""
        return [*self.entrypoint, *self.command]

    @property
    def resources(self) -> dict[str, Any]:
        """The limits that the file sets, as fields of `SandboxResources`."""
        limits = {"cpu": self.cpus, "memory_mib": self.mem_limit // _MIB if self.mem_limit else None}
        return {name: value for name, value in limits.items() if value is not None}


class ComposeFile(_Strict):
    """A Compose file, with all variables resolved."""

    services: dict[str, ComposeService] = Field(min_length=1)
    name: str | None = None
    version: str | None = None

    def order(self) -> list[str]:
        """The services, each behind those that it depends on. Raises ValueError for a cycle or an unknown service."""
        graph: Mapping[str, set[str]] = {
            name: set(service.depends_on) for name, service in self.services.items()
        }
        unknown = sorted(set().union(*graph.values()) - graph.keys())
        if unknown:
            raise ValueError(f"services depend on {', '.join(unknown)}, which the file lacks")
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise ValueError(f"services depend on each other: {' → '.join(error.args[1])}") from error


def read_compose_file(path: Path) -> ComposeFile:
    """Read a Compose file. Raises ValueError naming everything that sandboxes cannot honour."""
    try:
        return ComposeFile.model_validate(load_yaml(path.read_text(encoding="utf-8")))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML that can be read: {error}") from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise ValueError(f"{path} cannot run in sandboxes: {problems}") from error
