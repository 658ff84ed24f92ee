"""A server process and its errors for an invalid configuration."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from responses_api_models.openai_model.app import OpenAIModel
from tests.resources.computing import ComputingEnvironment


@pytest.mark.parametrize("options", [{"judge_api_key": "canary"}, {"factor": "canary"}])
def test_a_configuration_that_is_refused_is_not_printed(options: dict[str, str]) -> None:
    block = {"entrypoint": "app.py", "port": 1, **options}
    config = {"env": {"resources_servers": {"computing": block}}}
    with pytest.raises(ValidationError) as caught:
        ComputingEnvironment.config_of("env", config)
    assert "host" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_model_server_s_key_is_not_printed_either() -> None:
    block = {"entrypoint": "app.py", "host": "h", "port": 1, "openai_api_key": "canary"}
    with pytest.raises(ValidationError) as caught:
        OpenAIModel.config_of("m", {"m": {"responses_api_models": {"openai_model": block}}})
    assert "openai_base_url" in str(caught.value)
    assert "canary" not in str(caught.value)
