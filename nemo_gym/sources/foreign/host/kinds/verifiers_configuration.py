"""The taskset that a name of verifiers means, and the configuration of its environment."""

from __future__ import annotations

import difflib
import os
import pkgutil
import sys
import tomllib
import traceback
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ValidationError
from verifiers.v1 import tasksets
from verifiers.v1.configs.agent import AgentConfig, agent_config_fields
from verifiers.v1.configs.client import BaseClientConfig
from verifiers.v1.configs.retries import RetryConfig
from verifiers.v1.mcp.toolset import SharedToolsetConfig, ToolsetConfig
from verifiers.v1.runtimes import PrimeConfig, SubprocessConfig
from verifiers.v1.utils.loaders import (
    default_harness_id,
    env_config_type,
    harness_class,
    resolve_env_config,
    taskset_class,
)

from ..faults import HostError

_OWN = ("harness", "runs")
"""Options beside the configuration of verifiers."""
_OURS = {"runtime", "client", "model", "retries"}
"""Options of a seat that the gym sets."""
_ADDRESSES = {"base_url", "api_key_var", "headers_from_env"}
_OFFLINE = (
    *("ConnectError", "ConnectionError", "gaierror", "URLError"),
    *("OfflineModeIsEnabled", "LocalEntryNotFoundError"),
)
"""Exceptions of a data set that was not fetched."""


class TasksetPackage(NamedTuple):
    """The package of a taskset; `version` is None for one of verifiers itself."""

    name: str
    version: str | None


def find_package(name: str) -> TasksetPackage:
    """Return the package of a name. A folder's modules can be imported afterwards, here and by tool servers.

    Raises `HostError` for a name that verifiers does not have, and for a folder that is no package of a taskset.
    """
    if name.startswith("/"):
        try:
            return find_folder_package(Path(name))
        except PermissionError as error:
            told = f"the user of a host cannot read {error.filename}: chmod -R o+rX {name}"
            raise HostError("not_found", told) from error
    known = sorted(each.name for each in pkgutil.iter_modules(tasksets.__path__))
    module = name.replace("-", "_").lower()
    if module not in known:
        near = ", ".join(difflib.get_close_matches(module, known, 3) or known)
        told = f"verifiers has no taskset {name!r}, but {near}"
        raise HostError(
            "not_found", f"{told}; the folder of another one's package is a path, such as ./{name}"
        )
    return TasksetPackage(module, None)


def find_folder_package(folder: Path) -> TasksetPackage:
    described = folder / "pyproject.toml"
    if not described.is_file():
        raise HostError("not_found", f"{folder} is no package of a taskset: it has no pyproject.toml")
    try:
        about = tomllib.loads(described.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise HostError("not_found", f"{described} is no TOML: {error}") from error
    project = about.get("project") or {}
    name = str(project.get("name") or folder.name).replace("-", "_").lower()
    wheel = about.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
    places = [*wheel.get("packages", []), name, f"src/{name}"]
    found = next((folder / place for place in places if (folder / place / "__init__.py").is_file()), None)
    if found is None and not (folder / f"{name}.py").is_file():
        raise HostError("not_found", f"{folder} is no package of a taskset: it has no module {name}")
    check_requirements(name, list(project.get("dependencies") or []))
    root = str(folder if found is None else found.parent)
    sys.path.insert(0, root)
    os.environ["PYTHONPATH"] = root
    return TasksetPackage(name if found is None else found.name, str(project.get("version") or "0"))


def check_requirements(name: str, declared: list[str]) -> None:
    """Raise `HostError` for requirements that the installed packages do not meet."""
    try:
        missing = list_missing([Requirement(each) for each in declared])
    except InvalidRequirement as error:
        raise HostError("not_found", f"the dependencies of {name} cannot be read: {error}") from error
    if missing:
        raise HostError(
            "unsupported", f"{name} needs {', '.join(missing)}, which the lock of verifiers lacks"
        )


def list_missing(needed: list[Requirement]) -> list[str]:
    """Return the requirements that the installed packages do not meet."""
    return [str(each) for each in needed if not is_met(each)]


def is_met(needed: Requirement) -> bool:
    if needed.marker is not None and not needed.marker.evaluate():
        return True
    try:
        return needed.specifier.contains(metadata.version(needed.name), prereleases=True)
    except metadata.PackageNotFoundError:
        return False


def resolve_configuration(package: TasksetPackage, options: dict[str, Any]) -> Any:
    """Return the configuration of an environment. Raises `HostError` for options or needs that this host refuses."""
    refuse_addresses(options)
    try:
        config = build_configuration(package.name, options)
        check_needs(package.name, config)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
        told = f"the options of {package.name} cannot be used: {'; '.join(problems)}"
        raise HostError("bad_request", told) from error
    except HostError:
        raise
    except Exception as error:
        raise explain_loading(error, package.name) from error
    return config


def refuse_addresses(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if name in _ADDRESSES:
            raise HostError(
                "bad_request", f"{name} is no option: the gym connects seats and judges to models"
            )
        if isinstance(value, dict):
            refuse_addresses(value)


def build_configuration(name: str, options: dict[str, Any]) -> Any:
    raw = {key: value for key, value in options.items() if key not in _OWN}
    raw["taskset"] = {**(raw.get("taskset") or {}), "id": name}
    own = default_harness_id(name)
    for seat, default in list_seats(env_config_type(name, raw.get("id") or "")).items():
        given = dict(raw.get(seat) or {})
        if refused := sorted(_OURS & set(given)):
            raise HostError("bad_request", f"{', '.join(refused)} of {seat} is no option: the gym sets it")
        if default.runtime != PrimeConfig() and not isinstance(default.runtime, SubprocessConfig):
            refuse_container(f"the seat {seat} of {name}", f"the runtime {default.runtime.type}")
        if default.harness is None and "harness" not in given:
            given["harness"] = {"id": options.get("harness") or ("null" if own == "bash" else own)}
        raw[seat] = {**given, "runtime": {"type": "subprocess"}}
    config = resolve_env_config(raw)
    for retried in (config, *agent_config_fields(config).values()):
        retried.retries = RetryConfig()
    return config


def list_seats(kind: type[BaseModel]) -> dict[str, AgentConfig]:
    """Return the seats that a configuration declares, with their defaults."""
    fields = kind.model_fields.items()
    return {name: field.default for name, field in fields if isinstance(field.default, AgentConfig)}


def check_needs(name: str, config: Any) -> None:
    """Raise `HostError` for an environment that needs a container or a server outside of the sandbox."""
    task = taskset_class(name).task_type()
    if task.NEEDS_CONTAINER:
        refuse_container(f"the task {task.__name__} of {name}", "a container")
    for seat, played in agent_config_fields(config).items():
        if harness_class(played.harness.id).NEEDS_CONTAINER:
            refuse_container(f"the seat {seat} of {name}", f"a container for the harness {played.harness.id}")
    for path, found in walk_configuration(config):
        if isinstance(found, ToolsetConfig | SharedToolsetConfig):
            if found.url:
                told = f"the tools of {name} are at {found.url}, and environments have no network here"
                raise HostError("unsupported", told)
            if not isinstance(found.runtime, SubprocessConfig):
                refuse_container(f"the tool server {path} of {name}", f"the runtime {found.runtime.type}")


def refuse_container(what: str, needed: str) -> None:
    told = f"{what} needs {needed}; this gym plays verifiers in its own sandbox, without containers"
    raise HostError("unsupported", told)


def find_judges(config: Any) -> dict[str, Any]:
    """Return the models that an environment calls beside its seats, by name: those of its judges."""
    return {path: found for path, found in walk_configuration(config) if isinstance(found, BaseClientConfig)}


def walk_configuration(config: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Return the parts of a configuration with their paths, without those of seats."""
    if isinstance(config, BaseModel):
        yield ".".join(path), config
        parts: Any = ((name, getattr(config, name)) for name in type(config).model_fields)
    elif isinstance(config, dict):
        parts = config.items()
    elif isinstance(config, list | tuple):
        parts = enumerate(config)
    else:
        return
    for name, part in parts:
        if not isinstance(part, AgentConfig):
            yield from walk_configuration(part, (*path, str(name)))


def explain_loading(error: Exception, name: str) -> HostError:
    """Return the error for a taskset that could not be loaded."""
    causes = list(list_causes(error))
    told = f"{type(error).__name__}: {error}"
    lacking = next((each.name for each in causes if isinstance(each, ModuleNotFoundError)), None)
    if lacking is not None:
        return HostError(
            "unsupported", f"{name} needs the module {lacking}, which the lock of verifiers lacks"
        )
    if any(type(each).__name__ in _OFFLINE for each in causes):
        known = "bring its data with the package"
        return HostError(
            "unsupported", f"{name} needs the network, which environments lack here: {known} ({told})"
        )
    variable = next((each.args[0] for each in causes if is_missing_variable(each)), None)
    if variable is not None:
        lacked = f"{name} needs the variable {variable}, and environments have none of this machine's here"
        return HostError("unsupported", f"{lacked}: they call models through the gym, without a key")
    if isinstance(error, AttributeError | TypeError | ValueError) and "__all__" in told:
        return HostError("not_found", f"{name} is no taskset of verifiers 0.4: {error}")
    return HostError("environment_error", f"{name} cannot be loaded: {told}")


def is_missing_variable(error: BaseException) -> bool:
    """Return whether an error is a `KeyError` of `os.environ`."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        isinstance(error, KeyError) and bool(frames) and frames[-1].filename in ("<frozen os>", os.__file__)
    )


def list_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
