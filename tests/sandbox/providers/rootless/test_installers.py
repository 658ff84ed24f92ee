"""The stand-ins of apt and pip name what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sandbox.providers.rootless import installers


@pytest.mark.parametrize(
    ("program", "arguments", "missing"),
    [
        ("apt-get", ["update"], []),
        ("apt-get", ["install", "-y", "no-such-package"], ["apt: no-such-package"]),
        ("pip3", ["install", "-q", "pytest", "no-such-package==1.0"], ["pip: no-such-package==1.0"]),
        ("pip", ["install", "-c", "constraints.txt", "pytest"], []),
        ("pip", ["list"], []),
    ],
)
def test_what_is_not_installed_is_named(
    program: str, arguments: list[str], missing: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "missing"
    monkeypatch.setattr(installers, "MISSING", str(listed))
    monkeypatch.setattr(installers, "is_installed", lambda _, name: not name.startswith("no-such"))
    assert installers.main(program, arguments) == bool(missing)
    assert (listed.read_text().splitlines() if listed.exists() else []) == missing


def test_a_package_of_python_is_found_by_its_name() -> None:
    assert installers.is_installed("pip", "pytest>=8")
    assert not installers.is_installed("pip", "no-such-package")
