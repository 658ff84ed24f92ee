"""The environment that Ray makes on every node: the key `ray_runtime_env`, a mapping or a file, checked without Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.config._yaml_files import read_yaml
from nemo_gym.config.keys import RayRuntimeEnv
from nemo_gym.config.problems import Location, Problems
from nemo_gym.config.pydantic_problems import validate
from nemo_gym.config.secrets import is_secret_name, secret_values
from nemo_gym.config.tree import DictTree, dump_plain
from nemo_gym.failures import ConfigError

KEY = "ray_runtime_env"


def read_ray_environment(config: Mapping[str, Any], folder: Path) -> RayRuntimeEnv | None:
    """Return the environment of a configuration, with absolute paths; None if it has none.

    Relative paths start at `folder`, also those in a file. Raises `ConfigErrors` with all problems.
    """
    given = config.get(KEY)
    if given is None:
        return None
    problems = Problems()
    environment = (
        _read(folder / given, given, problems) if isinstance(given, str) else _check(given, problems)
    )
    if environment is not None:
        where = Location(given) if isinstance(given, str) else None
        for message, remedy in _faults(environment, folder):
            problems.add(where, f"{KEY} {message}", remedy)
    problems.raise_if_any()
    assert environment is not None
    return _make_paths_absolute(environment, folder)


def refuse_without_ray(config: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if a configuration whose placement is another one has an environment for Ray."""
    if config.get(KEY) is not None:
        raise ConfigError(
            f"{KEY} has an effect with +placement=ray only",
            code=KEY,
            remedy="Add +placement=ray, or remove the key.",
        )


def build_runtime_env(environment: RayRuntimeEnv) -> dict[str, Any]:
    """Return the `runtime_env` for Ray, which writes it to its tables, logs and command lines. It has no secrets."""
    given = environment.model_dump(exclude_defaults=True, exclude={"env_vars"})
    if not given and not environment.env_vars:
        return {}
    secrets = secret_variables(environment)
    plain = {name: value for name, value in environment.env_vars.items() if name not in secrets}
    # Ray would also make the environment on nodes that have no node host.
    return {**given, "env_vars": plain, "config": {"eager_install": False, **environment.config}}


def secret_variables(environment: RayRuntimeEnv) -> dict[str, str]:
    """Return the variables whose names are those of secrets. Node hosts get them without Ray's `runtime_env`."""
    return {name: value for name, value in environment.env_vars.items() if is_secret_name(name)}


def list_hidden_values(environment: RayRuntimeEnv) -> set[str]:
    """Return the values that no message may show."""
    return secret_values(environment.model_dump())


def _read(path: Path, display: str, problems: Problems) -> RayRuntimeEnv | None:
    root = read_yaml(path.expanduser(), display, problems)
    return None if root is None else validate(RayRuntimeEnv, dump_plain(root), root, problems)


def _check(given: Mapping[str, Any], problems: Problems) -> RayRuntimeEnv | None:
    return validate(RayRuntimeEnv, given, DictTree({}, Location(KEY)), problems)


def _faults(environment: RayRuntimeEnv, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the message and the remedy of each fault that Ray would find late or not at all."""
    if environment.pip is not None and environment.uv is not None:
        yield "has both pip and uv", "Keep one of them."
    if environment.excludes and not (environment.working_dir or environment.py_modules):
        yield "has excludes, but nothing is copied", "Add working_dir or py_modules, or remove excludes."
    for key in ("pip", "uv"):
        listing = getattr(environment, key)
        if isinstance(listing, str) and not (folder / listing).expanduser().is_file():
            yield (
                f"{key}: there is no file {listing}",
                "Name a requirements file, or write a list of packages.",
            )
    for key, paths in (("working_dir", [environment.working_dir]), ("py_modules", environment.py_modules)):
        for path in filter(None, paths):
            if "://" in path:
                yield f"{key}: {path} is no local path", "Copy it to this machine, and name the copy."
            elif not _can_be_copied((folder / path).expanduser(), key):
                forms = "a folder" if key == "working_dir" else "a folder or a wheel"
                yield f"{key}: {path} is not {forms}", f"Its path is relative to {folder}."


def _can_be_copied(path: Path, key: str) -> bool:
    return path.is_dir() or (key == "py_modules" and path.suffix == ".whl" and path.is_file())


def _make_paths_absolute(environment: RayRuntimeEnv, folder: Path) -> RayRuntimeEnv:
    def absolute(path: str) -> str:
        return str((folder / path).expanduser().resolve())

    changes: dict[str, Any] = {"py_modules": [absolute(each) for each in environment.py_modules]}
    if environment.working_dir is not None:
        changes["working_dir"] = absolute(environment.working_dir)
    for key in ("pip", "uv"):
        if isinstance(listing := getattr(environment, key), str):
            changes[key] = absolute(listing)
    return environment.model_copy(update=changes)
