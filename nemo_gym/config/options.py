"""Validation of every key in a server's block by the config class of its implementation.

Implementations are not imported into the process of a command. An `Inspect` function runs `option_faults` in a child
process (`nemo_gym.launch.inspection`) and returns an `Inspection` for each server. The keys that the gym itself reads
are validated in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from pydantic import AliasChoices, AliasPath, BaseModel, Field, RootModel, ValidationError

from nemo_gym import PARENT_DIR
from nemo_gym.config.problems import Location, Problems, did_you_mean
from nemo_gym.config.pydantic_problems import Fault, find_faults, validate
from nemo_gym.config.secrets import hide_in_text, secret_values
from nemo_gym.config.servers import ServerInstance
from nemo_gym.config.tree import DictTree, Path, Scalar, find_at, nearest_location, render_path, value_at
from nemo_gym.config.types import AgentServerRef, Domain
from nemo_gym.paths import display_path


class ServerKeys(BaseModel, extra="ignore"):
    """The keys that the block of any server may have."""

    entrypoint: str
    host: str | None = None
    port: int | None = Field(None, strict=True, ge=0, le=65535)
    num_workers: int | None = Field(None, strict=True, ge=1, le=1024)
    datasets: Any = None
    domain: Domain | None = None
    description: Any = None
    value: Any = None
    verified: Any = None
    verified_url: Any = None
    allowed_agents: Any = None
    allowed_model_types: Any = None


_OF_THE_LAUNCHER = frozenset({"host", "port", "num_workers"})
"""The launcher sets these keys when it starts the server."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of validating one server's block."""

    faults: Sequence[Fault] = ()
    code_fault: tuple[str, int | None, str] | None = None
    """File, line and message of an error in the implementation's code."""
    remedy: str | None = None
    """The remedy."""
    unchecked: str | None = None
    """The reason if the block could not be validated and the code is not at fault."""
    runs_code: bool = False
    """True if the server runs code of models."""


Inspect = Callable[[Sequence[ServerInstance], Mapping[str, Any]], Mapping[str, Inspection]]
"""Maps servers, and the data of the whole configuration, to inspections by server name."""


def check_options(
    servers: Sequence[ServerInstance],
    data: Mapping[str, Any],
    root: DictTree,
    problems: Problems,
    working_directory: FilePath,
    inspect: Inspect | None,
) -> list[str]:
    """Add a problem for every option that is unknown, missing or of the wrong type, and for code that fails.

    An unknown option that a file sets for an implementation outside this package is a warning, unless it looks like a
    misspelling: environments of the ecosystem keep options of earlier versions of their agents. One warning names the
    servers whose options could not be validated. Returns the servers that run code of models.
    """
    for server in servers:
        validate(ServerKeys, server.config, root, problems, server.path)
    if inspect is None or not servers:
        return []
    secrets = secret_values(data)
    unchecked: dict[str, list[str]] = {}
    inspections = inspect(servers, data)
    foreign = {server.name for server in servers if not server.directory.is_relative_to(PARENT_DIR)}
    for name, inspection in inspections.items():
        for fault in inspection.faults:
            if name in foreign and _is_stale(fault, root):
                problems.warn(f"{nearest_location(root, fault.path)}: {fault.message}")
            else:
                _add(fault, data, root, problems, secrets)
        if inspection.code_fault is not None:
            file, line, message = inspection.code_fault
            where = Location(display_path(FilePath(file), working_directory), line)
            problems.add(where, hide_in_text(message, secrets), inspection.remedy)
        if inspection.unchecked is not None:
            unchecked.setdefault(inspection.unchecked, []).append(name)
    if unchecked:
        reasons = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in unchecked.items())
        problems.warn(f"the options of these servers are not checked: {reasons}")
    return [name for name, inspection in inspections.items() if inspection.runs_code]


class _AliasKeys(BaseModel):
    """The options of a second name of an agent that have an effect."""

    agent_server: AgentServerRef


def check_aliases(servers: Iterable[ServerInstance], root: DictTree, problems: Problems) -> None:
    """Check that every second name of an agent names its agent."""
    for server in servers:
        if server.is_alias:
            validate(_AliasKeys, server.config, root, problems, server.path)


def option_faults(
    model: type[BaseModel], block: Mapping[str, Any], path: Path, default_host: str
) -> Iterator[Fault]:
    """Yield the faults of the server's `block` at `path` by `model`, its implementation's config class."""
    name, _, implementation = path
    given = {key: value for key, value in block.items() if key not in _OF_THE_LAUNCHER}
    given |= {"name": name, "host": block.get("host") or default_host, "port": 0}
    if "num_workers" in block and type(block["num_workers"]) in (int, type(None)):
        given["num_workers"] = block["num_workers"]  # a class may require the key, also as null
    known = _list_accepted_keys(model)
    if known is not None:
        # `name` is not an option: it is set to the name of the instance.
        own = (known - {"name"}) | set(ServerKeys.model_fields)
        yield from _unknown(block, own, path, str(implementation))
    try:
        config = model.model_validate(given)
    except ValidationError as error:
        yield from find_faults(error, model, given, path)
        return
    for key, value in block.items():
        yield from _find_nested_faults(_field_value(config, key), value, (*path, key), str(implementation))


def _add(
    fault: Fault, data: Mapping[str, Any], root: DictTree, problems: Problems, secrets: Iterable[str]
) -> None:
    if problems.found and _is_unresolved(fault.path, data, root):
        return  # the key that it refers to is missing, which was reported
    add = problems.add_absence if fault.is_missing else problems.add
    add(nearest_location(root, fault.path), hide_in_text(fault.message, secrets), fault.remedy)


def _is_stale(fault: Fault, root: DictTree) -> bool:
    """Return whether a file sets an option that its implementation may have had in an earlier version."""
    return fault.is_unlike_any and nearest_location(root, fault.path).line is not None


def _is_unresolved(path: Path, data: Mapping[str, Any], root: DictTree) -> bool:
    """Return whether the value at `path` could not be resolved, such as `${missing}` or `???`."""
    tree = find_at(root, path)
    try:
        return value_at(data, path) is None and isinstance(tree, Scalar) and tree.value is not None
    except KeyError:
        return False


def _unknown(block: Mapping[str, Any], known: set[str], path: Path, implementation: str) -> Iterator[Fault]:
    for key in sorted(set(block) - known):
        at = (*path, key)
        options = ", ".join(sorted(known - set(ServerKeys.model_fields)))
        near = did_you_mean(key, known)
        remedy = near or f"Its options are {options}."
        message = f"{render_path(at)}: {implementation} has no option {key!r}."
        yield Fault(at, message, remedy, is_unlike_any=near is None)


def _find_nested_faults(value: Any, data: Any, path: Path, implementation: str) -> Iterator[Fault]:
    """Yield the unknown keys of nested models, which pydantic ignores."""
    if isinstance(value, BaseModel) and isinstance(data, Mapping):
        known = _list_accepted_keys(type(value))
        if known is not None:
            yield from _unknown(data, known, path, implementation)
        for key, below in data.items():
            yield from _find_nested_faults(_field_value(value, key), below, (*path, key), implementation)
    elif isinstance(value, Mapping) and isinstance(data, Mapping):
        for key, below in data.items():
            yield from _find_nested_faults(value.get(key), below, (*path, key), implementation)
    elif isinstance(value, list | tuple) and isinstance(data, list):
        for index, (item, below) in enumerate(zip(value, data, strict=False)):
            yield from _find_nested_faults(item, below, (*path, index), implementation)


def _field_value(model: BaseModel, key: str) -> Any:
    """Return the value of the field for `key`, or None if there is no such field."""
    names = (name for name, field in type(model).model_fields.items() if key in (name, field.alias))
    return getattr(model, next(names, ""), None)


def _list_accepted_keys(model: type[BaseModel]) -> set[str] | None:
    """Return the keys that `model` accepts, or None if pydantic or a validator of the model decides."""
    decorators = model.__pydantic_decorators__.model_validators.values()
    if model.model_config.get("extra") in ("allow", "forbid") or issubclass(model, RootModel):
        return None  # pydantic itself reports what is forbidden
    if any(decorator.info.mode != "after" for decorator in decorators):
        return None
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    keys: set[str] = set()
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        if alias is None or by_name:
            keys.add(name)
        for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            if choice is not None:
                keys.add(str(choice.path[0]) if isinstance(choice, AliasPath) else choice)
    return keys
