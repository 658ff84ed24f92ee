"""`lint-imports` refuses an import against the layers of pyproject.toml, inside a function too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR

LINT_IMPORTS = Path(sys.executable).parent / "lint-imports"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package and its contracts."""
    shutil.copy(PARENT_DIR / "pyproject.toml", tmp_path)
    package = tmp_path / "nemo_gym"
    shutil.copytree(PARENT_DIR / "nemo_gym", package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def lint(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [str(LINT_IMPORTS), "--no-cache"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def test_the_layers_hold(checkout: Path) -> None:
    done = lint(checkout)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("failures", "import nemo_gym.transport", "nemo_gym.failures -> nemo_gym.transport"),
        (
            "tokens/ids",
            "def late() -> None:\n    from nemo_gym.cli import main",
            "nemo_gym.tokens.ids -> nemo_gym.cli",
        ),
        ("clock", "import simulation.play", "nemo_gym is not allowed to import simulation"),
    ],
)
def test_an_upward_import_is_refused(checkout: Path, module: str, line: str, broken: str) -> None:
    path = checkout / "nemo_gym" / f"{module}.py"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{line}\n", encoding="utf-8")
    done = lint(checkout)
    assert done.returncode == 1
    assert broken in done.stdout


def test_a_new_room_has_to_have_a_layer(checkout: Path) -> None:
    (checkout / "nemo_gym" / "attic.py").touch()
    done = lint(checkout)
    assert done.returncode == 1
    assert "attic" in done.stdout
