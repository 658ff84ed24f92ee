"""The configuration block of a sandbox provider."""

from __future__ import annotations

from typing import Any

import pytest
from omegaconf import OmegaConf

from nemo_gym.sandbox import create_provider, resolve_provider_config, resolve_provider_metadata

BLOCKS = {
    "sandbox": {"local": {"concurrency": 2}, "default_metadata": {"team": "gym"}},
    "empty": {"default_metadata": {}},
    "two": {"local": {}, "other": {}},
    "text": "local",
    "odd": {"local": 3},
    "labels": {"local": {}, "default_metadata": "x"},
}


@pytest.mark.parametrize("configs", [BLOCKS, OmegaConf.create(BLOCKS)], ids=["dict", "omegaconf"])
def test_a_provider_is_given_by_block_name_or_block(configs: Any) -> None:
    assert resolve_provider_config("sandbox", configs) == {"local": {"concurrency": 2}}
    assert resolve_provider_metadata("sandbox", configs) == {"team": "gym"}
    assert resolve_provider_config({"local": {}}) == {"local": {}}
    assert resolve_provider_metadata({"local": {}}) == {}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "does not exist"),
        ("empty", "must name one provider, not 0"),
        ("two", "not 2: local, other"),
        ("text", "must map a provider's name"),
        ("odd", "the options of local must be a mapping, not 3"),
    ],
)
def test_blocks_without_exactly_one_provider_are_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve_provider_config(name, BLOCKS)


def test_labels_must_be_a_mapping_and_providers_known() -> None:
    with pytest.raises(ValueError, match="default_metadata"):
        resolve_provider_metadata("labels", BLOCKS)
    with pytest.raises(
        ValueError, match="there is no sandbox provider 'cloud'; there are apptainer, docker, local"
    ):
        create_provider({"cloud": {}})
