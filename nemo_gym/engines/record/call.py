"""A call of a rollout while a model server answers it, and the line that records it.

The parts of a model server that add to the line find the call by `current_call`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from nemo_gym import clock
from nemo_gym.failures import GymError
from nemo_gym.json_objects import object_in
from nemo_gym.responses import Note
from nemo_gym.tokens.records import CallRecord, TokenForm
from nemo_gym.transport.calls import Reply

if TYPE_CHECKING:
    from fastapi import Request  # the collector, which reads records, needs no framework

DIALECTS: Mapping[str, str] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
"""The routes whose calls are recorded, and the names of their APIs in the record."""
REPLAYED_MARK = "ng_replayed"
"""The key of a request's scope that says that it is answered from a record."""

_INDEX = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class ModelCall:
    """A call that is being answered."""

    server: str
    dialect: str
    digest: str | None = None
    """The digest of the request, in the record of an opened rollout."""
    started_at: float = field(default_factory=clock.wall_clock)
    tokens: CallRecord | None = None
    """Its token record, with the ids that it adds to an earlier call of the rollout."""
    notes: Counter[str] = field(default_factory=Counter)
    """The changes of its request and the oddities of its answer: their number by code and field."""
    execution: Mapping[str, Any] = field(default_factory=dict)
    """The source of its answer, by `start_model_execution`."""
    is_recorded: bool = False

    @property
    def keeps_tokens(self) -> bool:
        """True if its line has the token ids, and not its answer: its agent has no use for them."""
        return self.digest is not None

    def note(self, note: Note | str) -> None:
        name = note if isinstance(note, str) else f"{note.code} {_INDEX.sub('[]', note.field)}"
        self.notes[name] += 1

    def build_line(self, request: Mapping[str, Any], outcome: Reply | BaseException) -> dict[str, Any]:
        """Return the line of the call. `request` are the fields that hold the request, whole or as a delta."""
        line: dict[str, Any] = {
            "model_call_id": f"call_{clock.hex_id()}",
            "server": self.server,
            "dialect": self.dialect,
        }
        if self.digest is not None:
            line["digest"] = self.digest
        line |= {"started_at": self.started_at, "completed_at": clock.wall_clock(), **request}
        line |= {**self.execution, **self._describe_end(outcome)}
        if self.tokens is not None:
            line["tokens"] = self.tokens.to_wire(TokenForm.PACKED)
        if self.notes:
            line["notes"] = dict(self.notes)
        return line

    def _describe_end(self, outcome: Reply | BaseException) -> dict[str, Any]:
        if isinstance(outcome, Reply):
            if self.digest is not None:
                answer = orjson.loads(outcome.body)
                return {
                    "status_code": outcome.status,
                    "response": answer,
                    "sampled_tokens": count_sampled_tokens(answer),
                }
            category = {"error_category": f"http_{outcome.status}"} if outcome.status >= 400 else {}
            return {"status_code": outcome.status, **category, **parse_body("response", outcome.body)}
        if isinstance(outcome, GymError):
            failure = outcome.failure
            return {
                "status_code": failure.http_status,
                "error_category": failure.code,
                "error": failure.message,
            }
        return {"error_category": type(outcome).__name__}


current_call: ContextVar[ModelCall | None] = ContextVar("nemo_gym_model_call", default=None)
"""The call that this code answers; None for one that is not recorded."""


def start_model_execution(request: Request, *, upstream_attempted: bool) -> dict[str, Any]:
    """Return a mapping in which a model server notes where its answer comes from.

    Its keys are `response_source` (`upstream` or `local`), `upstream_status_code` and `local_response_reason`. They
    become fields of the call's record.
    """
    execution: dict[str, Any] = {
        "upstream_attempted": upstream_attempted,
        "response_source": None,
        "upstream_status_code": None,
        "local_response_reason": None,
    }
    call = current_call.get()
    if call is not None:
        call.execution = execution
    return execution


def count_sampled_tokens(answer: Mapping[str, Any]) -> int:
    """Return the number of tokens that the engine sampled for an answer of any API, by its usage."""
    usage = answer.get("usage") or {}
    return int(usage.get("output_tokens") or usage.get("completion_tokens") or 0)


def parse_body(name: str, body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object under `name`, or else as text under `<name>_raw`."""
    value = object_in(body)
    return {name: value} if value is not None else {f"{name}_raw": body.decode(errors="replace")}
