"""The policy of an attempt: the conversation so far, and the model that continues it.

Agents are built from these parts. A `Trajectory` keeps the conversation, and a `Policy` adds the model's answers;
`nemo_gym.agents.tools` calls the tools, and `nemo_gym.episodes.driver` runs the episode. All data is plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from nemo_gym.agents.tools import FailedToolCall, ToolClient
from nemo_gym.episodes.driver import Act, read_failure
from nemo_gym.failures import AgentError, Failure, build_error
from nemo_gym.responses.schemas import add_counts
from nemo_gym.rows.compose import mark_failed_output, note_failed_call
from nemo_gym.rows.verdict import EndReason
from nemo_gym.tokens.records import drop_tokens as drop_tokens
from nemo_gym.transport.context import BUDGET_SPENT, LISTS, TOKENS_HEADER
from nemo_gym.transport.server_client import ServerClient

__all__ = [
    "Policy",
    "Trajectory",
    "add_usage",
    "calls_in",
    "drop_tokens",
    "input_items",
    "read_answer",
    "user_message",
]


_CUTS = {"context_overflow": EndReason.CONTEXT_OVERFLOW, BUDGET_SPENT: EndReason.BUDGET}
"""Failures of a model call that end a conversation, by their codes."""
_TAKES_LISTS = {TOKENS_HEADER: LISTS}


class Trajectory:
    """The conversation of one attempt. Every item is encoded once, although every turn sends all items."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = {name: value for name, value in params.items() if name != "input"}
        self._encoded = [orjson.Fragment(orjson.dumps(item)) for item in input_items(params["input"])]
        self._output: list[dict[str, Any]] = []
        self.last_answer: dict[str, Any] = {}
        """The model's last Responses object; empty before its first answer."""
        self._usage: dict[str, Any] | None = None
        self._notes: dict[str, Any] = {}
        self.steps = 0
        """The number of model calls so far."""

    def request_body(self) -> bytes:
        """Return the body of the next `POST /v1/responses`: the whole conversation, without token ids."""
        return orjson.dumps({**self._params, "input": self._encoded})

    def add_answer(self, answer: dict[str, Any]) -> None:
        """Add the model's answer. Its token ids stay in the trajectory and are not sent back."""
        self.steps += 1
        self.last_answer = answer
        self._usage = add_usage(self._usage, answer.get("usage"))
        for item in answer["output"]:
            self._add(item, drop_tokens(item))

    def add_tool_output(self, call_id: str, output: str) -> None:
        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        self._output.append(item)
        self._encoded.append(orjson.Fragment(orjson.dumps(item)))

    def add_failed_output(self, call_id: str, error: FailedToolCall) -> None:
        """Add the output of a failed call. The row has its cause, which is not sent to the model."""
        item = {"type": "function_call_output", "call_id": call_id, "output": error.output}
        self._add(mark_failed_output(item, error.failed), item)
        note_failed_call(self._notes, error.failed)

    def add_user_message(self, text: str, **marks: Any) -> None:
        """Add a user message. `marks` are extra fields for the trajectory, which are not sent to the model."""
        message = user_message(text)
        self._add({**message, **marks}, message)

    def _add(self, kept: dict[str, Any], sent: dict[str, Any]) -> None:
        self._output.append(kept)
        self._encoded.append(orjson.Fragment(orjson.dumps(sent)))

    def end(self, reason: EndReason) -> Act:
        """Return the attempt as one Responses object, with all turns in its output and the usage of all calls."""
        last = self.last_answer or Act.build_empty_response("policy")
        response = {**last, "output": self._output, "usage": self._usage}
        if reason is EndReason.CONTEXT_OVERFLOW or reason is EndReason.BUDGET:
            response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return Act(response, reason, None, self._notes)


class Policy:
    """Continues a trajectory with the answers of a model server."""

    def __init__(
        self, client: ServerClient, model: str, trajectory: Trajectory, *, takes_lists: bool = False
    ) -> None:
        """`takes_lists`: the items of answers are only kept, so their token ids need not repeat the prompts.

        The base class of agents writes the fields that trainers read (`nemo_gym.rows.token_lists`). An `act` of a
        subclass may read them before, so the agents of this repository take lists in their own `act` alone.
        """
        self._client = client
        self._model = model
        self._headers = _TAKES_LISTS if takes_lists else None
        self.trajectory = trajectory
        self.cut_by = EndReason.CONTEXT_OVERFLOW
        """Why `answer` has returned None."""

    async def answer(self) -> dict[str, Any] | None:
        """Call the model and add its answer to the trajectory.

        Returns None when the conversation has outgrown the context, or the rollout its budget, after at least one
        answer: `cut_by` tells which. Every other failure, including a first request that does not fit, raises
        `GymError`.
        """
        body = self.trajectory.request_body()
        reply = await self._client.post(self._model, "/v1/responses", data=body, headers=self._headers)
        if not reply.ok:
            failure = read_failure(reply, self._model, "answer")
            if failure.code in _CUTS and self.trajectory.steps:
                self.cut_by = _CUTS[failure.code]
                return None
            raise build_error(failure)
        answer = read_answer(reply.body, self._model)
        self.trajectory.add_answer(answer)
        return answer

    def is_spent_budget(self, failure: Failure) -> bool:
        """Return whether a failed call of any model ends the conversation because the rollout's budget is spent."""
        return failure.code == BUDGET_SPENT and bool(self.trajectory.steps)

    async def take_turn(self, tools: ToolClient, max_steps: int | None) -> EndReason:
        """Call the model and the requested tools until the model answers without a tool call.

        `max_steps` counts the model calls of the whole trajectory.
        """
        while max_steps is None or self.trajectory.steps < max_steps:
            answer = await self.answer()
            if answer is None:
                return self.cut_by
            if answer.get("incomplete_details"):
                return EndReason.from_response(answer)
            calls = calls_in(answer)
            if not calls:
                return EndReason.FINAL_ANSWER
            for call in calls:  # sequentially, because tools may share the session's state
                try:
                    output = await tools.call_or_raise(call["name"], call["arguments"])
                except FailedToolCall as error:
                    self.trajectory.add_failed_output(call["call_id"], error)
                else:
                    self.trajectory.add_tool_output(call["call_id"], output)
        return EndReason.MAX_STEPS


def read_answer(body: bytes, model: str) -> dict[str, Any]:
    """Parse the Responses object of a model server. Raises `AgentError` for any other body."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise AgentError(
            f"`{model}` returned invalid JSON: {error}", code="malformed_answer", peer=model
        ) from error
    if not isinstance(answer, dict) or not isinstance(answer.get("output"), list):
        raise AgentError(f"`{model}` did not return a Responses object", code="malformed_answer", peer=model)
    return answer


def calls_in(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the function calls of an answer, in order."""
    return [item for item in answer["output"] if item.get("type") == "function_call"]


def input_items(given: str | Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert the `input` of a task row to a list of items."""
    return [user_message(given)] if isinstance(given, str) else list(given)


def user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "type": "message"}


def add_usage(total: dict[str, Any] | None, usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """Add two usages, details included; None if both are unknown."""
    if not total or not usage:
        return total or usage or None
    return add_counts(total, usage)
