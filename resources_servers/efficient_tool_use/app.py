"""Questions about a stock of parts, to be answered with few tool credits. The README defines the reward."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Self, TypeVar

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field, PositiveInt, model_validator

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
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.responses.items import FunctionCallOutput
from nemo_gym.responses.wire import read_field
from nemo_gym.reward_profile import compute_pass_majority_metrics
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.verdict import read_reward
from nemo_gym.server_utils import SESSION_ID_KEY
from nemo_gym.verify.answers import final_answer, final_text
from nemo_gym.verify.function_calls import read_function_calls
from nemo_gym.verify.numbers import Quantity, is_same_quantity, read_quantity
from resources_servers.efficient_tool_use.scoring import Weights, efficiency, reward_of
from resources_servers.efficient_tool_use.stock import Bin, Tool, ToolCall, bins_shown, cost_of

MemberT = TypeVar("MemberT")


class EfficientToolUseConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    weights: Weights = Field(default_factory=Weights)


class StockRow(BaseModel):
    """The stock of a task."""

    stock: dict[str, dict[str, int]]


class StockSeedRequest(StockRow, BaseSeedSessionRequest):
    pass


class CountBinRequest(BaseModel):
    warehouse: str
    part: str


class ListWarehouseRequest(BaseModel):
    warehouse: str


class ListPartRequest(BaseModel):
    part: str


class EfficientToolUseRunRequest(StockRow, BaseRunRequest):
    needed: list[Bin] = Field(min_length=1)
    """The bins that the answer depends on."""
    expected_answer: int
    prices: dict[Tool, PositiveInt]
    par_cost: PositiveInt
    """The minimum credits that reveal all needed bins."""
    par_tokens: PositiveInt
    """The output tokens of a terse policy with par cost."""

    @model_validator(mode="after")
    def _require_a_world_that_fits(self) -> Self:
        missing = [
            f"{warehouse}/{part}"
            for warehouse, part in self.needed
            if part not in self.stock.get(warehouse, {})
        ]
        if missing:
            raise ValueError(f"the stock has no {', '.join(missing)}, which the answer needs")
        if set(self.prices) != set(Tool):
            raise ValueError(f"prices must name {', '.join(Tool)}")
        return self


class EfficientToolUseVerifyRequest(EfficientToolUseRunRequest, BaseVerifyRequest):
    pass


class EfficientToolUseVerifyResponse(EfficientToolUseVerifyRequest, BaseVerifyResponse):
    success: bool
    """True if the answer is right and every needed bin was looked up."""
    is_right: bool
    is_grounded: bool
    extracted_answer: str | None
    calls: int
    cost: int
    call_efficiency: float
    output_tokens: int | None
    token_efficiency: float | None


class EfficientToolUseResourcesServer(SimpleResourcesServer):
    config: EfficientToolUseConfig
    reads_tokens: ClassVar[bool] = False
    stocks: dict[str, dict[str, dict[str, int]]] = Field(default_factory=dict)
    """The stock of each session."""

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post(f"/{Tool.COUNT_BIN}")(self.count_bin)
        app.post(f"/{Tool.LIST_WAREHOUSE}")(self.list_warehouse)
        app.post(f"/{Tool.LIST_PART}")(self.list_part)
        return app

    async def seed_session(  # type: ignore[override]  # with the request, for its session
        self, request: Request, body: StockSeedRequest
    ) -> BaseSeedSessionResponse:
        self.stocks[request.session[SESSION_ID_KEY]] = body.stock
        return BaseSeedSessionResponse()

    async def release_session(self, session_id: str) -> None:
        self.stocks.pop(session_id, None)

    async def count_bin(self, request: Request, body: CountBinRequest) -> dict[str, int]:
        units = found(self._stock_of(request), body.warehouse, "warehouse")
        return {"units": found(units, body.part, "part")}

    async def list_warehouse(self, request: Request, body: ListWarehouseRequest) -> dict[str, int]:
        return found(self._stock_of(request), body.warehouse, "warehouse")

    async def list_part(self, request: Request, body: ListPartRequest) -> dict[str, int]:
        stock = self._stock_of(request)
        return {warehouse: found(units, body.part, "part") for warehouse, units in stock.items()}

    def _stock_of(self, request: Request) -> dict[str, dict[str, int]]:
        session = request.session[SESSION_ID_KEY]
        if session not in self.stocks:
            raise HTTPException(409, f"session {session} was not opened with /seed_session")
        return self.stocks[session]

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: EfficientToolUseVerifyRequest
    ) -> EfficientToolUseVerifyResponse:
        calls = [ToolCall(call.name, call.arguments or {}) for call in read_function_calls(body.response)]
        shown = frozenset[Bin]().union(
            *(bins_shown(call, body.stock) for call in answered_calls(body.response))
        )
        answer = final_answer(final_text(body.response))
        is_right = answer is not None and states(answer.text, body.expected_answer)
        is_grounded = shown.issuperset(body.needed)
        cost = cost_of(calls, body.prices)
        tokens = body.response.usage.output_tokens if body.response.usage else None
        call_efficiency = efficiency(cost, body.par_cost)
        token_efficiency = None if tokens is None else efficiency(tokens, body.par_tokens)
        return EfficientToolUseVerifyResponse(
            **dict(body),
            reward=reward_of(
                is_right and is_grounded, call_efficiency, token_efficiency, self.config.weights
            ),
            success=is_right and is_grounded,
            is_right=is_right,
            is_grounded=is_grounded,
            extracted_answer=answer.text if answer else None,
            calls=len(calls),
            cost=cost,
            call_efficiency=call_efficiency,
            output_tokens=tokens,
            token_efficiency=token_efficiency,
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks, scores_of, answer_key="extracted_answer")[0]


def found(members: Mapping[str, MemberT], name: str, kind: str) -> MemberT:
    """Return the member of that name. Raises HTTPException, which the policy sees as the tool's answer."""
    if name not in members:
        raise HTTPException(404, f"there is no {kind} {name!r}; there are {', '.join(members)}")
    return members[name]


def answered_calls(response: NeMoGymResponse) -> list[ToolCall]:
    """Return the calls whose results the policy has seen."""
    answered = {item.call_id for item in response.output if isinstance(item, FunctionCallOutput)}
    seen = [item for item in response.output if read_field(item, "call_id") in answered]
    return [ToolCall(call.name, call.arguments or {}) for call in read_function_calls({"output": seen})]


def states(answer: str, expected: int) -> bool:
    """Return whether an answer is the expected number, with or without a unit."""
    quantity = read_quantity(answer)
    return quantity is not None and is_same_quantity(Quantity(Fraction(expected)), quantity)


def scores_of(row: AnyRow) -> dict[str, float | None]:
    """Return the scores for the metrics; efficiencies count only for successes."""
    return {
        "accuracy": read_reward(row),
        "success": float(row["success"]),
        "call_efficiency": row["call_efficiency"] if row["success"] else None,
        "token_efficiency": row["token_efficiency"] if row["success"] else None,
    }


if __name__ == "__main__":
    EfficientToolUseResourcesServer.run_webserver()
