"""The block `token_id_capture`, as servers of the ecosystem read it."""

from __future__ import annotations

import pytest

from nemo_gym.ecosystem.token_capture import (
    current_capture_context,
    make_external_capture_handler,
    token_id_capture_config,
)
from nemo_gym.failures import ConfigError


def test_a_configuration_without_the_block_captures_nothing() -> None:
    settings = token_id_capture_config({}).token_id_capture
    assert (settings.enabled, settings.external_staging) == (False, False)
    assert current_capture_context() is None  # type: ignore[func-returns-value]


def test_staging_outside_of_the_gym_is_refused_by_name() -> None:
    block = {"enabled": True, "external_staging": True, "external_staging_backend": "vllm", "dir": "x"}
    settings = token_id_capture_config({"token_id_capture": block}).token_id_capture
    assert settings.external_staging
    with pytest.raises(ConfigError, match=r"token_id_capture.external_staging \(vllm\) is not supported"):
        make_external_capture_handler(settings.external_staging_backend)
