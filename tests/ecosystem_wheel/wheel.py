"""The wheel of the ecosystem, in a cache folder outside the repository, and its folders beside our `nemo_gym`.

The layout of `tree`:

    nemo_gym/               this repository's package, copied anew for every run
    resources_servers/ …    the wheel's folders

The wheel's own `nemo_gym` is extracted to a folder of its own, for the stage `refusals` only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

NEWEST, OLDER = "0.7.0", ("0.5.1",)
VERSION = os.environ.get("VERSION") or NEWEST
REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("NEMO_GYM_ECOSYSTEM_CACHE") or Path.home() / ".cache" / "nemo_gym_ecosystem")
WHEEL = CACHE / f"nemo_gym-{VERSION}-py3-none-any.whl"
TREE = CACHE / f"tree-{VERSION}"
CORE = CACHE / f"core-{VERSION}"
ROLES = ("resources_servers", "responses_api_agents", "responses_api_models", "environment_servers")
ENVIRONMENTS = ROLES[0]
FOLDERS = (*ROLES, "environments", "benchmarks")
"""The folders of the wheel that are laid beside our package."""


def lay_out() -> None:
    """Download and extract the wheel if the cache does not have it, and copy our package into the tree."""
    if not WHEEL.is_file():
        download()
    _extract(TREE, FOLDERS)
    package = TREE / "nemo_gym"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(REPOSITORY / "nemo_gym", package, ignore=shutil.ignore_patterns("__pycache__"))


def lay_out_core() -> None:
    """Extract the wheel's own `nemo_gym`. Call `lay_out` first."""
    _extract(CORE, ("nemo_gym",))


def _extract(target: Path, folders: Sequence[str]) -> None:
    """Extract folders of the wheel, unless a run before did."""
    marker = target / ".extracted"
    if marker.is_file():
        return
    shutil.rmtree(target, ignore_errors=True)
    prefixes = tuple(f"{folder}/" for folder in folders)
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(target, [name for name in wheel.namelist() if name.startswith(prefixes)])
    marker.touch()


def download() -> None:
    """Take the wheel from the package registry. Its `requires-python` is newer than some interpreters here."""
    CACHE.mkdir(parents=True, exist_ok=True)
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-requires-python"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(CACHE)]
    subprocess.run([*command, f"nemo-gym=={VERSION}"], check=True)


def metadata() -> list[str]:
    """Return the lines of the wheel's metadata."""
    with zipfile.ZipFile(WHEEL) as wheel:
        text = wheel.read(f"nemo_gym-{VERSION}.dist-info/METADATA").decode()
    return text.splitlines()


def applications() -> list[Path]:
    """Return every `app.py` of a role's folder, relative to the tree."""
    found = (path for role in ROLES for path in TREE.glob(f"{role}/*/app.py"))
    return sorted(path.relative_to(TREE) for path in found)


def suites() -> list[Path]:
    """Return every folder with tests of its own, relative to the tree."""
    return sorted(path.parent.relative_to(TREE) for path in _suite_folders() if _has_tests(path))


def _suite_folders() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from TREE.glob(f"{folder}/*/tests")


def _has_tests(folder: Path) -> bool:
    return any(folder.rglob("test_*.py"))
