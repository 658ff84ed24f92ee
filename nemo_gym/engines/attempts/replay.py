"""The replay of a recorded attempt to the calls of a new one, at one model server.

Where a request differs from the recorded one only by declared noise, or in its instructions, the recorded text is sent
in all later requests too: otherwise the tokens would not extend those of the record, and the policy would see a history
on which it has not acted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.engines.attempts.matching import ComparedCall, Match, Matcher
from nemo_gym.engines.attempts.noise import Noise
from nemo_gym.engines.attempts.record import RecordedCall, read_attempt
from nemo_gym.engines.record.deltas import split
from nemo_gym.engines.record.tape import MISMATCH, EngineTape
from nemo_gym.failures import EngineError
from nemo_gym.json_objects import object_in
from nemo_gym.responses.turns import ITEMS_OF_API, SpokenTurn, list_answer_items, read_spoken_turns
from nemo_gym.serving.durable.plans import ReplayPlan
from nemo_gym.tokens.records import PolicyVersion

_INSTRUCTIONS = ("instructions", "system", "tools")
_SYSTEM_ROLES = ("system", "developer")
_EXTRAS, _SEEDS = "extra_body", 1 << 31
STALE = "replay_stale"
"""The code of a failure: the recorded policy is too old."""
MISSING = "replay_missing"
"""The code of a failure: the record to replay is not there."""


class ReplayedCall(NamedTuple):
    """How a request is answered."""

    exchange: ComparedCall
    body: Mapping[str, Any]
    """The request to handle: the given one, or one with recorded text in it."""
    tape: EngineTape
    recorded: RecordedCall | None
    """The call whose answer is given again; None for a live call."""
    match: Match | None


@dataclass(slots=True)
class Replay:
    """The replay of one session."""

    plan: ReplayPlan
    matcher: Matcher
    recorded: dict[int, RecordedCall] = field(default_factory=dict)
    """By the number of an exchange."""
    _sent: dict[int, _Sent] = field(default_factory=dict)
    """By the number of an exchange: its items as the client and the engine know them, once they differ."""
    _numbers: int = 0

    @classmethod
    def open(cls, plan: ReplayPlan, server: str, done: Sequence[RecordedCall] = ()) -> Replay:
        """Return the replay of a plan at a model server.

        `done` are calls that the new attempt has made already, before this process began. Raises `EngineError` if the
        record is not there: its calls would be paid again.
        """
        if not plan.source.is_dir():
            raise _build_missing_failure(plan.source, server)
        calls = [call for call in read_attempt(plan.source).calls if call.server == server]
        limit = plan.calls.get(server, 0) if plan.calls is not None else None
        calls = _cut_after(calls, limit)
        answered = 0
        replay = cls(plan, Matcher([], Noise(plan.noise), plan.strict))
        for call in calls:
            exchange = replay.build_exchange(call.dialect, join_request(call))
            answered += call.is_answered
            exchange.is_answered = call.is_answered and (limit is None or answered <= limit)
            replay.recorded[exchange.number] = call
            replay.matcher.left.append(exchange)
        for call in done:
            replay._repeat(call)
        return replay

    def _repeat(self, call: RecordedCall) -> None:
        """Take a call of the new attempt as matched, in a process that began after it."""
        exchange = self.build_exchange(call.dialect, join_request(call))
        if not self.matcher.is_over:
            match = self.matcher.match(exchange)
            if match.recorded is None:
                self.matcher.add_live(exchange)
            exchange = match.recorded or exchange
        self.note_answer(exchange, read_answer(call))

    def build_exchange(self, api: str, body: Mapping[str, Any]) -> ComparedCall:
        """Return a request in the form in which it is compared."""
        self._numbers += 1
        items, _ = split(api, body)
        model = body.get("model")
        name = model if isinstance(model, str) else None
        return ComparedCall(
            self._numbers, name, read_turns(api, body, items), instructions=write_instructions(body, items)
        )

    def answer(self, api: str, body: Mapping[str, Any]) -> ReplayedCall:
        """Return how a request is answered. Raises `Mismatch`."""
        request = self.build_exchange(api, body)
        match = self.matcher.match(request) if not self.matcher.is_over else None
        recorded = self.recorded[match.recorded.number] if match is not None and match.recorded else None
        sent = self._substitute(api, body, match, recorded)
        if recorded is not None and match is not None and match.recorded is not None:
            request = match.recorded
        elif self._sent or not self.matcher.is_over:
            self.matcher.add_live(request)
        if sent is not body:
            self._sent[request.number] = _Sent(len(split(api, body)[0]), *split(api, sent))
        if recorded is None or not request.is_answered:
            return ReplayedCall(request, put_seed(sent, self.plan.seed), EngineTape(), None, match)
        tape = EngineTape(recorded.replies, recorded.versions, self._check_versions, recorded.parts)
        return ReplayedCall(request, sent, tape, recorded, match)

    def note_answer(self, exchange: ComparedCall, answer: Mapping[str, Any]) -> None:
        """Note the answer to a call, which later requests go on from."""
        items = list_answer_items(answer) if not self.matcher.is_over or self._sent else []
        exchange.answer = tuple(turn for item in items for turn in read_spoken_turns(item))

    def _check_versions(self, recorded: PolicyVersion | None, current: PolicyVersion | None) -> None:
        most = self.plan.max_staleness
        if most is None or not isinstance(recorded, int) or not isinstance(current, int):
            return
        if current - recorded > most:
            raise EngineError(
                f"the recorded calls are of policy version {recorded}, and the current one is {current}: more than "
                f"max_replay_staleness={most} versions later",
                code=STALE,
                retryable=True,
                remedy="The next attempt begins afresh.",
                status=409,
            )

    # --- The recorded text --------------------------------------------------------------------------------------

    def _substitute(
        self, api: str, body: Mapping[str, Any], match: Match | None, recorded: RecordedCall | None
    ) -> Mapping[str, Any]:
        """Return the request with the recorded text in place of noise and of changed instructions."""
        if match is None and not self._sent:
            return body
        items, fields = split(api, body)
        if match is not None and recorded is not None:
            is_equal = not match.noise and not match.changes_instructions
            if is_equal and (match.parent is None or match.parent.number not in self._sent):
                return body
            return _join(api, recorded.items, _take_instructions(fields, recorded.fields, api))
        turns = read_turns(api, body, items)
        parent = match.parent if match is not None else self.matcher.find_last_before(turns)
        known = self._sent.get(parent.number) if parent is not None else None
        if known is None:
            return body
        whole = [*known.items, *items[known.given :]]
        return _join(api, whole, _take_instructions(fields, known.fields, api))


class _Sent(NamedTuple):
    """A request whose text was replaced."""

    given: int
    """The number of messages that the client gave."""
    items: list[Any]
    fields: Mapping[str, Any]


def put_seed(body: Mapping[str, Any], added: int | None) -> Mapping[str, Any]:
    """Return a request with its sampling seed changed: a field of it, or in `metadata.extra_body`."""
    if added is None:
        return body
    if type(seed := body.get("seed")) is int:
        return {**body, "seed": (seed + added) % _SEEDS}
    metadata = body.get("metadata")
    written = metadata.get(_EXTRAS) if isinstance(metadata, Mapping) else None
    extras = object_in(written) if isinstance(written, str) else None
    if extras is None or type(seed := extras.get("seed")) is not int:
        return body
    changed = orjson.dumps({**extras, "seed": (seed + added) % _SEEDS}).decode()
    return {**body, "metadata": {**body["metadata"], _EXTRAS: changed}}


def join_request(call: RecordedCall) -> dict[str, Any]:
    """Return the whole request of a recorded call."""
    return {**call.fields, ITEMS_OF_API[call.dialect]: call.items} if call.items else dict(call.fields)


def read_turns(api: str, body: Mapping[str, Any], items: Sequence[Any]) -> tuple[SpokenTurn, ...]:
    """Return the turns of a request."""
    text = body.get(ITEMS_OF_API[api])
    lead = [{"role": "user", "content": text}] if isinstance(text, str) else []
    return tuple(turn for item in (*lead, *items) for turn in read_spoken_turns(item))


def read_answer(call: RecordedCall) -> Mapping[str, Any]:
    """Return the answer of a recorded call, as far as its turns need it."""
    if call.answer is not None:
        return call.answer
    bodies = [orjson.loads(reply.body) for reply in call.replies if reply.status == 200]
    return next((body for body in reversed(bodies) if "choices" in body or "output" in body), {})


def write_instructions(body: Mapping[str, Any], items: Sequence[Any]) -> str:
    """Return the system text and the tools of a request as one text."""
    system = [item for item in items if isinstance(item, Mapping) and item.get("role") in _SYSTEM_ROLES]
    given = [body.get(name) for name in _INSTRUCTIONS]
    return orjson.dumps([*given, system], option=orjson.OPT_SORT_KEYS).decode()


def _take_instructions(fields: Mapping[str, Any], recorded: Mapping[str, Any], api: str) -> dict[str, Any]:
    """Return the fields of a request with the recorded instructions, and with a prompt that is a recorded text."""
    names = (*_INSTRUCTIONS, ITEMS_OF_API[api])
    kept = {name: value for name, value in fields.items() if name not in names}
    return kept | {name: recorded[name] for name in names if name in recorded}


def _join(api: str, items: Sequence[Any], fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, ITEMS_OF_API[api]: list(items)} if items else fields


def _cut_after(calls: list[RecordedCall], limit: int | None) -> list[RecordedCall]:
    """Return the calls up to the first one after `limit` answered ones, whose request is compared, too."""
    if limit is None:
        return calls
    answered = [place for place, call in enumerate(calls) if call.is_answered]
    return calls[: answered[limit] + 1] if limit < len(answered) else calls


def _build_missing_failure(source: Path, server: str) -> EngineError:
    return EngineError(
        f"`{server}` finds no record of the attempt to continue at {source}",
        code=MISSING,
        retryable=True,
        remedy="Keep the records of attempts where they are while the run goes on. The next attempt begins afresh.",
        status=400,  # as of a mismatch
    )


def build_mismatch_failure(text: str) -> EngineError:
    """Return the failure of a session whose replay does not say what was recorded."""
    return EngineError(
        text,
        code=MISMATCH,
        retryable=True,
        remedy="The environment or the agent does not repeat itself. Declare what varies with +replay_noise, or begin "
        "such attempts afresh.",
        status=400,  # agents retry 409 and end at 400
    )
