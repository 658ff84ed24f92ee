"""The configuration files of providers, at the paths that configurations of the ecosystem include."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.loading import load
from nemo_gym.sandbox import get_provider_class, resolve_provider_config, resolve_provider_metadata
from nemo_gym.sandbox.providers.class_checks import find_option_problems

FILE = "nemo_gym/sandbox/providers/{name}/configs/{name}.yaml"
HERE = ["apptainer", "docker", "local", "podman"]


@pytest.mark.parametrize("name", [*HERE, "opensandbox"])
def test_a_providers_file_is_found_from_any_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = load([f"+config_paths=[{FILE.format(name=name)}]"], env_path=None).data
    ((found, options),) = resolve_provider_config("sandbox", data).items()
    assert found == name
    assert resolve_provider_metadata("sandbox", data)["sandbox-api"]
    if name in HERE:
        assert find_option_problems(name, get_provider_class(name), options, ("sandbox", name)) == []
