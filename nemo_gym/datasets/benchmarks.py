"""The datasets of benchmarks that a script prepares: their scripts, the packages that these import, and their runs.

A script is `benchmarks/<name>/prepare.py` or the like. It runs in a process of its own. Its function `prepare()` is
called, or, without one, the script runs as a program.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from nemo_gym.config.problems import Problems
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.json_objects import member
from nemo_gym.paths import find_file
from nemo_gym.transport.directory import server_block

EXTRA = "benchmarks"
"""The extra with the packages that most scripts import."""


class PreparedDataset(NamedTuple):
    """A dataset and the script that makes it."""

    name: str
    script: Path
    root: Path
    """The folder in which `import benchmarks.<name>` is looked up."""
    output: str
    """The file that the script writes, as the configuration names it."""
    dependencies: tuple[str, ...]


def find_prepared_datasets(
    config: Mapping[str, Any], split: str, working_directory: Path, problems: Problems
) -> list[PreparedDataset]:
    """Return the datasets of type `split` that have a script. `config` holds plain values; nothing of it is checked.

    A script that does not exist is a problem.
    """
    found: dict[str, PreparedDataset] = {}
    for dataset in _datasets(config):
        script = dataset.get("prepare_script")
        if dataset.get("type") != split or not isinstance(script, str):
            continue
        place = find_file(script, working_directory)
        if place is None:
            problems.add(None, f"There is no file {script!r}, which prepares {dataset.get('name')}.")
            continue
        root = place.parents[len(Path(script).parts) - 1] if not Path(script).is_absolute() else place.parent
        needed = tuple(map(str, dataset.get("prepare_dependencies") or ()))
        output = str(dataset.get("jsonl_fpath"))
        found.setdefault(output, PreparedDataset(str(dataset.get("name")), place, root, output, needed))
    return list(found.values())


def report_missing_packages(dataset: PreparedDataset, problems: Problems) -> None:
    """Add a problem if this interpreter lacks a package that the script imports or the dataset declares."""
    missing = [*_find_missing_modules(dataset), *_find_missing_requirements(dataset.dependencies)]
    if missing:
        names = ", ".join(dict.fromkeys(missing))
        problems.add(
            None,
            f"{dataset.script} needs packages that are not installed: {names}.",
            f"Install them: pip install {' '.join(dict.fromkeys(missing))}. The extra `{EXTRA}` has the usual ones.",
        )


def run_script(dataset: PreparedDataset, working_directory: Path) -> Path:
    """Run the script and return the file that it wrote.

    Raises `GymError` if the script fails, and `ConfigError` if it does not write the file.
    """
    done = subprocess.run(
        [sys.executable, "-m", "nemo_gym.datasets._script_process", str(dataset.script), str(dataset.root)],
        cwd=working_directory,
        env={**os.environ, "NEMO_GYM_WORKING_DIR": str(working_directory)},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise GymError(
            f"{dataset.script} ended with exit code {done.returncode}",
            code="prepare_failed",
            remedy="Its own messages are above.",
        )
    output = find_file(dataset.output, working_directory)
    if output is None:
        raise ConfigError(
            f"{dataset.script} did not write {dataset.output}",
            code="dataset_missing",
            remedy="Check `jsonl_fpath` of the dataset.",
        )
    return output


def _datasets(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the dataset blocks of every server."""
    for instance in config.values():
        datasets = member(server_block(instance), "datasets")
        yield from (each for each in datasets or () if isinstance(each, Mapping))


def _find_missing_modules(dataset: PreparedDataset) -> Iterator[str]:
    local = {path.stem for folder in (dataset.root, dataset.script.parent) for path in folder.glob("*")}
    for name in _list_imports(dataset.script):
        if name not in sys.stdlib_module_names and name not in local and find_spec(name) is None:
            yield name


def _list_imports(script: Path) -> set[str]:
    """Return the top-level names of all modules that the script imports, also inside functions."""
    names: set[str] = set()
    for element in ast.walk(ast.parse(script.read_bytes(), str(script))):
        if isinstance(element, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in element.names}
        elif isinstance(element, ast.ImportFrom) and not element.level and element.module:
            names.add(element.module.partition(".")[0])
    return names


def _find_missing_requirements(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        try:
            name = Requirement(line).name
            version(name)
        except InvalidRequirement:
            continue  # an option or a path
        except PackageNotFoundError:
            yield line
