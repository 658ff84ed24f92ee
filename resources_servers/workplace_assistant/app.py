"""An office assistant: five linked tables, 27 tools, and a reward for the final state of the tables."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

import orjson
from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, field_validator

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.failures import InputError, ToolError
from nemo_gym.server_utils import SESSION_ID_KEY
from nemo_gym.verify.state import StateRules, differences
from resources_servers.workplace_assistant import csv_tables
from resources_servers.workplace_assistant.generator import NOW, generate
from resources_servers.workplace_assistant.tables import Workplace, WorkplaceData
from resources_servers.workplace_assistant.tool import Tool, refusal
from resources_servers.workplace_assistant.toolkits import TOOLS

_RULES = StateRules(unordered=("$.*.created",))
_MOST_DIFFERENCES = 20


class WorkplaceConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.UNSUPPORTED

    tables_folder: str | None = None
    """A folder of CSV files to use instead of the generated tables (see `csv_tables.py`)."""
    now: str = str(NOW)
    """The current time for the tables in `tables_folder`, "YYYY-MM-DD HH:MM:SS"."""


class ToolArguments(BaseModel):
    """The arguments of a tool call; the tool validates them."""

    model_config = ConfigDict(extra="allow")


class ToolAnswer(BaseModel):
    output: Any


class ExpectedCall(BaseModel):
    name: str
    arguments: dict[str, JsonValue]

    @field_validator("arguments", mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        return orjson.loads(value) if isinstance(value, str) else value


class WorkplaceRunRequest(BaseRunRequest):
    ground_truth: list[ExpectedCall]
    """Calls with the expected effect. Other calls with the same effect are right too; an empty list means that nothing
    may change."""

    @field_validator("ground_truth", mode="before")
    @classmethod
    def _parse(cls, value: object) -> object:
        return orjson.loads(value) if isinstance(value, str) else value


class WorkplaceVerifyRequest(WorkplaceRunRequest, BaseVerifyRequest):
    pass


class WorkplaceVerifyResponse(BaseVerifyResponse):
    differences: list[str]
    """Readable differences from the expected tables; empty when there are none."""


class WorkplaceServer(SimpleResourcesServer):
    config: WorkplaceConfig
    reads_tokens: ClassVar[bool] = False
    workplaces: dict[str, Workplace] = Field(default_factory=dict)
    _data: WorkplaceData = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        folder = self.config.tables_folder
        self._data = csv_tables.load(folder, self.config.now) if folder else generate()

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        for tool in TOOLS.values():
            app.post(f"/{tool.name}", description=tool.description)(self._route_of(tool))
        return app

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: BaseSeedSessionRequest
    ) -> BaseSeedSessionResponse:
        self.workplaces[request.session[SESSION_ID_KEY]] = Workplace(self._data)
        return BaseSeedSessionResponse()

    async def verify(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: WorkplaceVerifyRequest
    ) -> WorkplaceVerifyResponse:
        expected = self._after(body.ground_truth).changes()
        actual = self._workplace(request).changes()
        wrong = differences(folded(expected), folded(actual), _RULES)
        return WorkplaceVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(not wrong),
            differences=[str(difference) for difference in wrong[:_MOST_DIFFERENCES]],
        )

    async def release_session(self, session_id: str) -> None:
        self.workplaces.pop(session_id, None)

    def _route_of(self, tool: Tool) -> Callable[[Request, ToolArguments], Awaitable[ToolAnswer]]:
        async def call_tool(request: Request, body: ToolArguments) -> ToolAnswer:
            return ToolAnswer(output=tool.call(self._workplace(request), body.model_extra or {}))

        return call_tool

    def _workplace(self, request: Request) -> Workplace:
        session = request.session[SESSION_ID_KEY]
        workplace = self.workplaces.get(session)
        if workplace is None:
            raise InputError(
                f"session {session} is not open",
                code="no_session",
                remedy="Open it with /seed_session.",
                status=409,
            )
        return workplace

    def _after(self, calls: Sequence[ExpectedCall]) -> Workplace:
        """Return a new workplace after the expected calls. Raises `InputError` when one of them fails."""
        workplace = Workplace(self._data)
        for index, call in enumerate(calls):
            tool = TOOLS.get(call.name)
            try:
                if tool is None:
                    raise refusal(f"there is no tool named {call.name!r}")
                tool.call(workplace, call.arguments)
            except ToolError as error:
                raise InputError(
                    f"the task row cannot be graded: ground_truth[{index}]: {error.failure.message}",
                    code="invalid_row",
                    param=f"ground_truth[{index}]",
                    remedy="The calls must fit the tables: see tables_folder in the README.",
                ) from error
        return workplace


def folded(value: Any) -> Any:
    """Return a state with case folded and white space collapsed in all texts."""
    if isinstance(value, str):
        return " ".join(value.casefold().split())
    if isinstance(value, Mapping):
        return {name: folded(member) for name, member in value.items()}
    return [folded(member) for member in value] if isinstance(value, list) else value


if __name__ == "__main__":
    WorkplaceServer.run_webserver()
