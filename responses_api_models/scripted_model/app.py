"""A scripted policy that needs no key, no network and no GPU: the mock engine inside the model server.

It is for demonstrations and CI. A script writes its answers, not a model.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.paths import find_file
from nemo_gym.transport import InMemoryTransport, Transport
from responses_api_models.vllm_model.app import VLLMModel
from responses_api_models.vllm_model.config import VLLMModelConfig

_ROOT = "http://scripted"
_URL = f"{_ROOT}/v1"
_FILES = ("answers", "script", "faults")


class ScriptedModelConfig(VLLMModelConfig):
    base_url: str | list[str] = _URL
    api_key: str = ""
    model: str = "scripted"
    engine: dict[str, Any] = Field(default_factory=dict)
    """Options of the mock engine: `policy`, `answers`, `latency_s`, ... (docs/mock_engine.md). Relative paths are
    resolved in the folder of the command, then beside the package."""

    @field_validator("engine")
    @classmethod
    def _refuse_two_names(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "model" in value:
            raise ValueError("set the model's name in `model` of the server, beside `engine`")
        return value


class ScriptedModel(VLLMModel):
    config: ScriptedModelConfig

    def new_transport(self) -> Transport:
        transport = InMemoryTransport()
        mount(transport, self.new_engine().app, _ROOT)
        return transport

    def new_engine(self) -> MockEngine:
        """Create the mock engine."""
        options = {**self.config.engine, "model": self.config.model}
        for name in _FILES:
            if isinstance(options.get(name), str):
                options[name] = _found(name, options[name])
        return MockEngine(EngineOptions.model_validate(options))


def _found(option: str, name: str) -> str:
    """Return the path of an option's file. The option `faults` may also contain the fault plan itself."""
    path = find_file(name)
    if path is not None:
        return str(path)
    if option == "faults" and name.lstrip().startswith(("-", "[")):
        return name
    raise ConfigError(f"there is no file at {name}", code="missing_file", param=f"engine.{option}")


if __name__ == "__main__":
    ScriptedModel.run_webserver()
