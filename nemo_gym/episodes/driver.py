"""The episode driver: it opens the session, runs the policy, verifies, and closes the session.

It records outcome, timing and usage. The session id is the attempt's id. The session is closed on every path,
cancellation included. A failure is raised with its root cause and never becomes a reward.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import orjson
from fastapi import Request

from nemo_gym.clock import hex_id, monotonic, wall_clock
from nemo_gym.failures import (
    DeadlineError,
    Failure,
    GymError,
    InputError,
    Outcome,
    TransportError,
    VerifierError,
    build_error,
)
from nemo_gym.json_objects import MAX_DEPTH, find_long_integers, is_odd, measure_form, parse_json
from nemo_gym.names import AGENT_TIMEOUT_KEY, NEXT_TURN_KEY, TURN_KEY
from nemo_gym.responses.schemas import add_counts
from nemo_gym.rows.calls import settle_sequence
from nemo_gym.rows.compose import (
    RESULT_MARKS,
    compose_scored_row,
    drop_marks,
    mask,
    select_score,
    zero,
)
from nemo_gym.rows.forms import AnyRow, ScoredRow, TaskRow
from nemo_gym.rows.keys import PARAMS_KEY, RESPONSE_KEY, REWARD_KEY
from nemo_gym.rows.token_lists import fill_lists, without_tokens, write_lists
from nemo_gym.rows.verdict import EndReason, is_reward, read_failure_class
from nemo_gym.transport import read_reply_failure
from nemo_gym.transport.calls import UNDELIVERED_CODES
from nemo_gym.transport.context import (
    LEAVE_OUT_HEADER,
    NONE,
    TOKENS_HEADER,
    PolicyCall,
    RequestContext,
    current_context,
)
from nemo_gym.transport.server_client import ServerClient, ServerReply

__all__ = ["Act", "Episode", "close_quietly", "read_failure", "require_ok"]

log = logging.getLogger(__name__)

_NO_ECHO = {LEAVE_OUT_HEADER: f"{PARAMS_KEY},{RESPONSE_KEY}"}
_CLOSE_TIMEOUT_S = 2.5
_CLOSE_TRIES = 2
_closings: set[asyncio.Task[ServerReply | None]] = set()
_NOTHING_TO_CLOSE = frozenset({404, 405, 409})
"""Statuses of a server without such a route, or of one that lost the session by a restart."""


class OnTruncation(StrEnum):
    """The reward of an attempt that was truncated by its context, its token budget or its steps."""

    VERIFY = "verify"
    """The verifier scores the truncated attempt."""
    ZERO = "zero"
    """The reward is 0, without a call of the verifier."""
    MASK = "mask"
    """The verifier scores it; `_ng_masked` and `mask_sample` in its row exclude it from training."""


@dataclass(slots=True)
class Act:
    """The result of the policy loop: a Responses object with all turns in its output, and the end reason."""

    response: dict[str, Any]
    end_reason: EndReason
    score: dict[str, Any] | None = None
    """The `reward` and other score fields, if the environment scored the steps; None to call `/verify`."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Fields that the agent adds to the scored row."""

    @staticmethod
    def build_empty_response(model: str) -> dict[str, Any]:
        """Return a Responses object without output, of an attempt without an answer of a model."""
        return {
            "id": f"resp_{hex_id()}",
            "object": "response",
            "created_at": int(wall_clock()),
            "model": model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def join(self, given: list[dict[str, Any]], later: Act) -> Act:
        """Return this turn and a later one, with the input between them, as one. A truncation stays its end reason."""
        output = [*self.response["output"], *given, *later.response["output"]]
        usage = add_counts(self.response.get("usage") or {}, later.response.get("usage") or {}) or None
        is_truncated = self.end_reason.outcome is Outcome.TRUNCATED
        return Act(
            {**later.response, "output": output, "usage": usage},
            self.end_reason if is_truncated else later.end_reason,
            later.score,
            {**self.notes, **later.notes},
        )


@dataclass(slots=True)
class Episode:
    """A running attempt."""

    row: TaskRow
    request: Request | None = None
    """The call of `/run`, for policies that read its cookies; None if an environment server drives the episode."""
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds by phase."""
    calls: list[PolicyCall] = field(default_factory=list)
    """The calls of the policy loop, in the order of their answers."""
    seed: ServerReply | None = None
    """The answer of `/seed_session`."""
    turn: int = 0
    """The number of the turn: an environment may answer `/verify` with the next one."""
    next_turn: dict[str, Any] | None = None
    """The fields of the row that the next turn changes, and its `input`; None if the episode ends here."""

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = self.row[PARAMS_KEY]
        return params

    @property
    def verifier_reads_tokens(self) -> bool:
        """Whether the environment's `verify` may read token ids; not if the answer of `/seed_session` says so."""
        return self.seed is None or self.seed.headers.get(TOKENS_HEADER) != NONE

    @property
    def agent_timeout_s(self) -> float | None:
        """The seconds that the task gives the agent in each turn; None for no limit."""
        timeout_s: float | None = self.row.get(AGENT_TIMEOUT_KEY)
        return timeout_s

    def begin_turn(self) -> list[dict[str, Any]]:
        """Begin the turn that `/verify` named, and return its input."""
        assert self.next_turn is not None
        following, self.next_turn = self.next_turn, None
        given: list[dict[str, Any]] = following.pop("input")
        self.row = TaskRow({**self.row, **following, PARAMS_KEY: {**self.params, "input": given}})
        self.turn += 1
        return given

    def on_truncation(self, of_agent: OnTruncation) -> OnTruncation:
        """Return the row's `on_truncation`, by default the agent's. Raises `InputError` for an unknown value."""
        stated = self.row.get("on_truncation", of_agent)
        try:
            return OnTruncation(stated)
        except ValueError as error:
            raise InputError(
                f"the row's `on_truncation` is {stated!r}",
                code="invalid_row",
                param="on_truncation",
                remedy=f"Set it to one of {', '.join(OnTruncation)}.",
            ) from error


class SessionBodies(NamedTuple):
    """The bodies of the two calls that open and close the session of an attempt."""

    opening: bytes
    closing: bytes = b"{}"


class EpisodeOptions(Protocol):
    """The agent options that the driver reads."""

    skip_verification: bool
    skip_verification_reward: float
    on_truncation: OnTruncation


class EpisodeAgent(Protocol):
    """The interface of an agent for the episode driver."""

    @property
    def config(self) -> EpisodeOptions: ...

    @property
    def server_client(self) -> ServerClient: ...

    @property
    def resources_server_name(self) -> str: ...

    def session_bodies(self, episode: Episode) -> SessionBodies:
        """Return the bodies that open and close the attempt's session: the task row, or the ecosystem's requests."""

    async def act(self, episode: Episode) -> Act:
        """Run the policy loop of one attempt."""


async def drive_episode(agent: EpisodeAgent, request: Request, *, keeps_lists: bool = False) -> ScoredRow:
    """Run one attempt at the task row in `request`, as `drive` does."""
    return await drive(agent, Episode(parse_row(await request.body()), request), keeps_lists=keeps_lists)


async def drive(agent: EpisodeAgent, episode: Episode, *, keeps_lists: bool = False) -> ScoredRow:
    """Run one attempt and return the scored row. Raises `GymError` if it fails.

    `keeps_lists`: the caller writes the token ids that are in lists (`nemo_gym.rows.token_lists`).
    """
    on_truncation = episode.on_truncation(agent.config.on_truncation)
    started, task = monotonic(), episode.row
    async with _Session(agent, episode):
        episode.timing["seed_session"] = acted = monotonic() - started
        act = await _act(agent, episode, started)
        episode.timing["act"] = monotonic() - started - acted
        scored = await _score(agent, episode, act, on_truncation)  # the verifier reads the session's state
        while episode.next_turn is not None:
            given, acted = episode.begin_turn(), monotonic()
            act = act.join(given, await _act(agent, episode, started))
            episode.timing["act"] += monotonic() - acted
            scored = await _score(agent, episode, act, on_truncation)
    episode.timing["total"] = monotonic() - started
    row = compose_scored_row(
        task,
        scored,
        act.notes,
        response=act.response,
        end_reason=act.end_reason,
        timing=episode.timing,
        calls=episode.calls,
    )
    row = settle_sequence(row)
    return row if keeps_lists else fill_lists(row)


class _Session:
    """The session of the attempt: open within the block, and always closed afterwards."""

    def __init__(self, agent: EpisodeAgent, episode: Episode) -> None:
        self._client = agent.server_client
        self._resources = agent.resources_server_name
        self._bodies = agent.session_bodies(episode)
        self._episode = episode

    async def __aenter__(self) -> None:
        try:
            with NamedStep("/seed_session"):
                seed = await self._client.post(self._resources, "/seed_session", data=self._bodies.opening)
            require_ok(seed, self._resources, "open the session (/seed_session)")
            self._episode.seed = seed
        except BaseException as error:
            # The server may have opened a session although its answer was lost. Without the call it has opened none.
            is_undelivered = isinstance(error, TransportError) and error.failure.code in UNDELIVERED_CODES
            if not is_undelivered:
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        await close_quietly(self._client, self._resources, "/close_session", self._bodies.closing)


class NamedStep(AbstractContextManager[None]):
    """Adds the route of a step to the failure of a call that got no answer, whose message names only the server."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, TransportError | DeadlineError):
            error.failure = replace(error.failure, message=f"{error.failure.message} (at {self._path})")


async def _act(agent: EpisodeAgent, episode: Episode, started: float) -> Act:
    """Run the policy. Calls of control routes are blocked meanwhile: a called name may come from the model."""
    context = current_context.get()
    if context is None:
        return await agent.act(episode)
    if context.began:
        episode.timing["queue"] = started - context.began
    was_acting, context.is_policy_acting = context.is_policy_acting, True
    context.calls = episode.calls
    try:
        return await agent.act(episode)
    finally:
        context.is_policy_acting = was_acting
        context.calls = None
        if context.ledger is not None:
            context.ledger.lift()  # a rollout over its budget is scored


def parse_row(body: bytes) -> TaskRow:
    """Parse the task row in a `/run` body. Raises `InputError` for an invalid row."""
    try:
        row = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the task row is not JSON: {error}", code="invalid_row") from error
    params = row.get(PARAMS_KEY) if isinstance(row, dict) else None
    if not isinstance(params, dict) or not isinstance(params.get("input"), str | list):
        raise InputError(
            f"a task row needs `{PARAMS_KEY}` with an `input` that is a string or a list",
            code="invalid_row",
            param=f"{PARAMS_KEY}.input",
        )
    if is_odd(body):
        _require_plain(row, body)
    task: TaskRow = row
    return task if RESULT_MARKS.isdisjoint(task) else drop_marks(task)


def _require_plain(row: AnyRow, body: bytes) -> None:
    """Raise `InputError` for a row that is too deep, or whose integers other readers of JSON would round."""
    depth, may_be_rounded = measure_form(row)
    if depth > MAX_DEPTH:
        raise InputError(
            f"the task row has {depth} levels of objects and lists; {MAX_DEPTH} are possible",
            code="invalid_row",
        )
    for place in find_long_integers(parse_json(body)) if may_be_rounded else ():
        raise InputError(
            f"`{place}` of the task row is an integer of more than 64 bit, which many readers of JSON round",
            code="invalid_row",
            param=place,
            remedy="Write it as a string.",
        )


async def _score(
    agent: EpisodeAgent, episode: Episode, act: Act, on_truncation: OnTruncation
) -> dict[str, Any]:
    """Return the reward and other score fields. Raises `VerifierError` without a finite reward."""
    if agent.config.skip_verification:
        return {REWARD_KEY: agent.config.skip_verification_reward}
    is_truncated = act.end_reason.outcome is Outcome.TRUNCATED
    if is_truncated and on_truncation is OnTruncation.ZERO:
        return zero(select_score(act.score or {}))
    resources = agent.resources_server_name
    scored = select_score(act.score if act.score is not None else await _verify(agent, episode, act))
    if read_failure_class(scored) is not None:
        return scored
    reward = scored.get(REWARD_KEY)
    if not is_reward(reward):
        raise _no_reward(resources, f"`reward` is {reward!r}")
    if is_truncated and on_truncation is OnTruncation.MASK:
        return mask(scored)
    return scored


async def _verify(agent: EpisodeAgent, episode: Episode, act: Act) -> dict[str, Any]:
    started = monotonic()
    resources = agent.resources_server_name
    turn = {TURN_KEY: episode.turn} if episode.turn else {}
    given = {**episode.row, RESPONSE_KEY: act.response, **turn}
    body = orjson.dumps(write_lists(given) if episode.verifier_reads_tokens else without_tokens(given))
    with NamedStep("/verify"):
        reply = await agent.server_client.post(resources, "/verify", data=body, headers=_NO_ECHO)
    require_ok(reply, resources, "verify the attempt (/verify)")
    episode.timing["verify"] = episode.timing.get("verify", 0.0) + monotonic() - started
    try:
        verified = parse_json(reply.body)
    except orjson.JSONDecodeError as error:
        raise _no_reward(resources, f"its response is not JSON: {error}") from error
    if not isinstance(verified, dict):
        raise _no_reward(resources, "its response is not a JSON object")
    episode.next_turn = verified.pop(NEXT_TURN_KEY, None)
    return verified


def _no_reward(resources: str, why: str) -> VerifierError:
    return VerifierError(
        f"`{resources}` gave no reward: {why}",
        code="no_reward",
        peer=resources,
        remedy="An environment must return a finite number as `reward`.",
    )


async def close_quietly(
    client: ServerClient, server: str, path: str, body: bytes = b"{}"
) -> ServerReply | None:
    """Close the session at `server`, even after the rollout's deadline or when the attempt is cancelled.

    Returns the answer; None if there is none. A failure is only logged: the attempt keeps its result, and the server's
    sweeper closes the session later.
    """
    try:
        return await _close_and_log(client, server, path, body)
    except asyncio.CancelledError:
        closing = asyncio.create_task(_close_and_log(client, server, path, body))
        _closings.add(closing)  # the event loop holds only a weak reference
        closing.add_done_callback(_closings.discard)
        raise


async def _close_and_log(client: ServerClient, server: str, path: str, body: bytes) -> ServerReply | None:
    context = current_context.get()
    reset = current_context.set(
        RequestContext(context.session, None, context.incarnations) if context else None
    )
    try:
        reply = await _close(client, server, path, body)
    except GymError as error:
        log.warning("`%s` could not close a session: %s", server, error)
        return None
    finally:
        current_context.reset(reset)
    if not reply.ok and reply.status not in _NOTHING_TO_CLOSE:
        log.warning("`%s` could not close a session: HTTP %d", server, reply.status)
    return reply


async def _close(client: ServerClient, server: str, path: str, body: bytes) -> ServerReply:
    """Close the session; retry after a timeout, because closing is idempotent. Raises `GymError`."""
    for _ in range(_CLOSE_TRIES):
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                return await client.post(server, path, data=body)
        except TimeoutError:
            continue
    raise TransportError(f"no answer within {_CLOSE_TIMEOUT_S:g} s", code="close_timeout", peer=server)


def require_ok(reply: ServerReply, server: str, purpose: str) -> None:
    """Raise for an error reply: the failure in its envelope, or a `VerifierError` that quotes the body."""
    if not reply.ok:
        raise build_error(read_failure(reply, server, purpose))


def read_failure(reply: ServerReply, server: str, purpose: str) -> Failure:
    passed_on = read_reply_failure(reply)
    if passed_on is not None:
        return passed_on.add_hop(server)
    quoted = reply.body[:500].decode(errors="replace")
    return VerifierError(
        f"`{server}` could not {purpose}: HTTP {reply.status} {quoted}",
        code=f"http_{reply.status}",
        peer=server,
        retryable=reply.status in (408, 429, 502, 503, 504),
        status=500,
    ).failure
