"""The base system: its name, and the images that it stands for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sandbox.providers.rootless.debian import find_base_problem, install_debian, name_base
from nemo_gym.sandbox.providers.rootless.store import ImageStore


@pytest.mark.parametrize("image", ["ubuntu:22.04", "debian", "docker.io/library/debian:bookworm-slim"])
def test_it_stands_for_debian_and_ubuntu(image: str) -> None:
    assert find_base_problem(image) is None


@pytest.mark.parametrize("image", ["python:3.12", "alpine", "scratch", "ubuntu-like:1", "org/ubuntu"])
def test_it_stands_for_no_other_image(image: str) -> None:
    assert image in (find_base_problem(image) or "")


def test_its_name_tells_its_packages_apart() -> None:
    assert name_base(["nginx", "jq"]) == name_base(["nginx"])
    assert name_base(["nginx"]) != name_base([])


async def test_an_installed_one_is_taken_and_a_missing_program_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ImageStore(tmp_path / "store")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(ConfigError, match="debootstrap"):
        await install_debian(store)
    store.layer(name_base([])).mkdir(parents=True)
    assert await install_debian(store) == name_base([])
