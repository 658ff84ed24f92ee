"""One tool call, scored by three separate objectives. The README defines the reward."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from nemo_gym.base_resources_server import (
    BaseMultiRewardVerifyResponse,
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.responses.wire import read_field
from nemo_gym.verify.answers import last_assistant_text
from nemo_gym.verify.function_calls import (
    FunctionCall,
    is_same_call,
    read_expected_calls,
    read_function_calls,
)
from nemo_gym.verify.json_schema import fits_schema
from nemo_gym.verify.rewards import sum_rewards


class MultiRewardConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    weights: dict[str, float] = Field(default_factory=dict)
    """The weights of the components; 1 by default."""


class MultiRewardRunRequest(BaseRunRequest):
    expected_call: dict[str, Any]
    """`{"name": ..., "arguments": {...}}`"""


class MultiRewardVerifyRequest(MultiRewardRunRequest, BaseVerifyRequest):
    pass


class MultiRewardVerifyResponse(MultiRewardVerifyRequest, BaseMultiRewardVerifyResponse):
    correctness: float
    schema_valid: float
    format: float
    predicted_calls: list[str]


class ExampleMultiRewardResourcesServer(SimpleResourcesServer):
    config: MultiRewardConfig
    reads_tokens: ClassVar[bool] = False

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: MultiRewardVerifyRequest
    ) -> MultiRewardVerifyResponse:
        (expected,) = read_expected_calls([body.expected_call])
        calls = read_function_calls(body.response)
        first = calls[0] if calls else None
        components = {
            "correctness": float(first is not None and is_same_call(expected, first)),
            "schema_valid": float(
                first is not None and fits_its_tool(first, body.responses_create_params.tools)
            ),
            "format": float(len(calls) == 1 and not last_assistant_text(body.response).strip()),
        }
        return MultiRewardVerifyResponse(
            **dict(body),
            **sum_rewards(components, self.config.weights)._asdict(),
            **components,
            predicted_calls=[str(call) for call in calls],
        )


def fits_its_tool(call: FunctionCall, tools: object) -> bool:
    """Return whether a call names one of the task's tools and its arguments fit that tool's schema."""
    declared = tools if isinstance(tools, list) else []
    tool = next((tool for tool in declared if read_field(tool, "name") == call.name), None)
    if tool is None or call.arguments is None:
        return False
    return fits_schema(dict(call.arguments), read_field(tool, "parameters") or {})


if __name__ == "__main__":
    ExampleMultiRewardResourcesServer.run_webserver()
