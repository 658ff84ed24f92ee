"""The simulated user: a second model that sees the conversation with the roles swapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, Field

from nemo_gym.agents.policy import add_usage, input_items, read_answer
from nemo_gym.episodes.driver import require_ok
from nemo_gym.failures import AgentError
from nemo_gym.transport.server_client import ServerClient
from nemo_gym.verify.answers import final_text

DEFAULT_PROMPT = """\
You play a user who talks to an assistant. Stay in the role, and write only what this user would write next.

What you are, know and want:
{instructions}

- Write one short message at a time, in your own words.
- Don't say everything at once, and don't make up what isn't written above.
- Don't help the assistant with its work, and don't play the assistant.
- When you have what you want, or it is clear that you won't get it, write {stop_token} and nothing else."""

_GREETING = "Hello, how can I help you?"
"""Shown to the user's model when the user speaks first; not part of the conversation."""
_NOTHING_SAID = "(no answer)"


class UserInstructions(BaseModel):
    instructions: str = Field(min_length=1)
    """The user's identity, knowledge and goal. The policy never sees them."""


class UserTask(BaseModel):
    """The fields of a task row that this agent reads."""

    user_simulation: UserInstructions


class Said(NamedTuple):
    """A message of the user; `text` is empty if it contained only the stop token."""

    text: str
    is_done: bool


class SimulatedUser:
    """One user in one conversation. The user sees the assistant's answers, but not its tool calls."""

    def __init__(
        self,
        client: ServerClient,
        model: str,
        params: Mapping[str, Any],
        *,
        role: str,
        stop_token: str,
        conversation: str | Sequence[dict[str, Any]],
    ) -> None:
        """`role` is the system prompt; `conversation` is the row's input, the conversation so far."""
        self._client = client
        self._model = model
        self._params = dict(params)
        self._role = role
        self._stop_token = stop_token
        self._heard_and_said = [
            _seen(str(item["role"]), text_in(item.get("content")))
            for item in input_items(conversation)
            if item.get("role") in _OTHER_SIDE
        ]
        self.usage: dict[str, Any] | None = None
        """The usage of the user's model calls, which is not part of the policy's usage."""
        self.messages = 0
        """The number of the user's messages."""

    @property
    def has_spoken_last(self) -> bool:
        """True if the next message is the assistant's."""
        return bool(self._heard_and_said) and self._heard_and_said[-1]["role"] == "assistant"

    def hear(self, text: str) -> None:
        """Add the assistant's answer."""
        self._heard_and_said.append(_seen("assistant", text))

    async def speak(self) -> Said:
        """Generate the user's next message.

        Raises `GymError` if the model fails or returns no usable text: the policy is not scored for that.
        """
        reply = await self._client.post(self._model, "/v1/responses", data=self._request_body())
        require_ok(reply, self._model, "play the user")
        answer = read_answer(reply.body, self._model)
        self.usage = add_usage(self.usage, answer.get("usage"))
        said = self._read(answer)
        if said.text:
            self._heard_and_said.append(_seen("user", said.text))
            self.messages += 1
        return said

    def _request_body(self) -> bytes:
        so_far = self._heard_and_said
        opens = [] if so_far and so_far[0]["role"] == "user" else [_seen("assistant", _GREETING)]
        return orjson.dumps(
            {**self._params, "input": [{"role": "system", "content": self._role}, *opens, *so_far]}
        )

    def _read(self, answer: Mapping[str, Any]) -> Said:
        text = final_text(answer)
        before, stop, _ = text.partition(self._stop_token)
        if stop:
            return Said(before.strip(), is_done=True)
        if not text or answer.get("incomplete_details"):
            raise self.failure("returned a truncated message" if text else "returned no text")
        return Said(text, is_done=False)

    def failure(self, why: str) -> AgentError:
        """Return the error of a failed user simulation."""
        return AgentError(
            f"`{self._model}`, which plays the user, {why}",
            code="user_simulation_failed",
            peer=self._model,
            retryable=True,
            remedy="Check the instructions of the task, and user_params.max_output_tokens.",
        )


_OTHER_SIDE = {"user": "assistant", "assistant": "user"}


def _seen(role: str, text: str) -> dict[str, str]:
    """Convert a message for the user's model, in whose requests the user has the assistant's role."""
    return {"role": _OTHER_SIDE[role], "content": text or _NOTHING_SAID}


def text_in(content: object) -> str:
    """Return the text of a message's content, without images and files."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
