"""The policy's side of an attempt: the conversation so far, and the model that carries it on.

What agents are built from. A `Trajectory` keeps what was said, a `Policy` has the model answer it; the tools come
from `nemo_gym.agents.tools`, the episode around it from `nemo_gym.episodes.driver`. All of it is plain JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from nemo_gym.agents.tools import ToolClient
from nemo_gym.episodes.driver import Act, EndReason, failure_of
from nemo_gym.failures import AgentError, error_of
from nemo_gym.responses.schemas import add_counts
from nemo_gym.tokens.records import CARRIED_FIELDS
from nemo_gym.transport.server_client import ServerClient


class Trajectory:
    """The conversation of one attempt. Every item is encoded once, however many turns repeat it."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = {name: value for name, value in params.items() if name != "input"}
        self._encoded = [orjson.Fragment(orjson.dumps(item)) for item in input_items(params["input"])]
        self._output: list[dict[str, Any]] = []
        self.last_answer: dict[str, Any] = {}
        """What the model said last; empty before it said anything."""
        self._usage: dict[str, Any] | None = None
        self.steps = 0
        """Model calls so far."""

    def request_body(self) -> bytes:
        """The body of the next `POST /v1/responses`: the whole conversation, as text."""
        return orjson.dumps({**self._params, "input": self._encoded})

    def add_answer(self, answer: dict[str, Any]) -> None:
        """What the model said. Its tokens stay in the trajectory and don't travel back to the model."""
        self.steps += 1
        self.last_answer = answer
        self._usage = add_usage(self._usage, answer.get("usage"))
        for item in answer["output"]:
            self._add(item, without_tokens(item))

    def add_tool_output(self, call_id: str, output: str) -> None:
        item = {"type": "function_call_output", "call_id": call_id, "output": output}
        self._add(item, item)

    def add_user_message(self, text: str, **marks: Any) -> None:
        """What somebody who is not the policy says. `marks` are kept in the trajectory; the model doesn't see them."""
        message = user_message(text)
        self._add({**message, **marks}, message)

    def _add(self, kept: dict[str, Any], sent: dict[str, Any]) -> None:
        self._output.append(kept)
        self._encoded.append(orjson.Fragment(orjson.dumps(sent)))

    def end(self, reason: EndReason) -> Act:
        """The attempt as one Responses object: every turn in its output, the usage of all calls."""
        response = {**self.last_answer, "output": self._output, "usage": self._usage}
        if reason is EndReason.CONTEXT_OVERFLOW:
            response |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        return Act(response, reason)


class Policy:
    """The model server that answers a trajectory."""

    def __init__(self, client: ServerClient, model: str, trajectory: Trajectory) -> None:
        self._client = client
        self._model = model
        self.trajectory = trajectory

    async def answer(self) -> dict[str, Any] | None:
        """The model's next answer, which is added to the trajectory.

        None when a conversation that the model has answered before no longer fits its context; one that never did
        is a failure of the attempt, as every other failed call is (`GymError`).
        """
        body = self.trajectory.request_body()
        reply = await self._client.post(self._model, "/v1/responses", data=body)
        if not reply.ok:
            failure = failure_of(reply, self._model, "answer")
            if failure.code == "context_overflow" and self.trajectory.steps:
                return None
            raise error_of(failure)
        answer = read_answer(reply.body, self._model)
        self.trajectory.add_answer(answer)
        return answer

    async def take_turn(self, tools: ToolClient, max_steps: int | None) -> EndReason:
        """Call the model and the tools it asks for until it answers without a tool call.

        `max_steps` counts the model calls of the whole trajectory.
        """
        while max_steps is None or self.trajectory.steps < max_steps:
            answer = await self.answer()
            if answer is None:
                return EndReason.CONTEXT_OVERFLOW
            if answer.get("incomplete_details"):
                return EndReason.of_response(answer)
            calls = calls_in(answer)
            if not calls:
                return EndReason.FINAL_ANSWER
            for call in calls:  # in order: tools may share the session's state
                output = await tools.call(call["name"], call["arguments"])
                self.trajectory.add_tool_output(call["call_id"], output)
        return EndReason.MAX_STEPS


def read_answer(body: bytes, model: str) -> dict[str, Any]:
    """The Responses object that a model server answered. Raises `AgentError` where it is none."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise AgentError(
            f"`{model}` answered no JSON: {error}", code="malformed_answer", peer=model
        ) from error
    if not isinstance(answer, dict) or not isinstance(answer.get("output"), list):
        raise AgentError(f"`{model}` answered no Responses object", code="malformed_answer", peer=model)
    return answer


def calls_in(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The function calls of an answer, in their order."""
    return [item for item in answer["output"] if item.get("type") == "function_call"]


def input_items(given: str | Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The `input` of a task row as items."""
    return [user_message(given)] if isinstance(given, str) else list(given)


def user_message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "type": "message"}


def without_tokens(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item as text only, for those who neither sample nor train."""
    return {name: value for name, value in item.items() if name not in CARRIED_FIELDS}


def add_usage(total: dict[str, Any] | None, usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """The sum of two usages, details included; None where neither is known."""
    if usage is None or total is None:
        return total if usage is None else usage
    return add_counts(total, usage)
