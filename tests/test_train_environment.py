"""`make test-train` installs everything that its tests import, the development packages that they need included."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

from nemo_gym import PARENT_DIR

COLLECT_WITHOUT = """
import importlib.abc, sys
import pytest

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"{name} is not installed by tests/train/install.sh")

sys.meta_path.insert(0, Missing())
options = ["--collect-only", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider"]
sys.exit(pytest.main([*options, "tests/train"]))
"""


def names_in(text: str) -> set[str]:
    return set(re.findall(r"[a-z][a-z0-9_-]*", text.lower()))


def packages_not_installed() -> set[str]:
    """The development packages that the environment of `make test-train` lacks."""
    project = tomllib.loads((PARENT_DIR / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    script = (PARENT_DIR / "tests" / "train" / "install.sh").read_text()
    installed = names_in("".join(line for line in script.splitlines() if "install" in line or "trl=" in line))
    for chosen in re.findall(r"'\.\[(.*?)\]'", script):
        installed |= names_in(" ".join(each for extra in chosen.split(",") for each in extras[extra]))
    return {re.split(r"[^\w-]", each.lower())[0] for each in extras["dev"]} - installed


def test_its_tests_import_only_packages_that_it_installs() -> None:
    missing = packages_not_installed()
    assert {"mypy", "ruff"} <= missing
    modules = [
        module for module, names in packages_distributions().items() if {*map(str.lower, names)} <= missing
    ]
    done = subprocess.run(
        [sys.executable, "-c", COLLECT_WITHOUT, *modules],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=PARENT_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
