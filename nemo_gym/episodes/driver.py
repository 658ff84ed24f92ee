"""The episode driver: open the session, let the policy act, verify, close; outcome, timing and usage recorded.

The session is the attempt's id. It is closed on every path, cancellation included. A failure anywhere is raised
with its root cause and never becomes a reward.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import orjson
from fastapi import Request

from nemo_gym import clock as sources
from nemo_gym.failures import (
    Failure,
    GymError,
    InputError,
    Outcome,
    TransportError,
    VerifierError,
    error_of,
)
from nemo_gym.names import FAILURE_CLASS_KEY, MASKED_KEY
from nemo_gym.tokens.rows import with_sequence_settled
from nemo_gym.transport import failure_of_reply
from nemo_gym.transport.calls import UNDELIVERED_CODES
from nemo_gym.transport.context import LEAVE_OUT_HEADER, RequestContext, current_context
from nemo_gym.transport.server_client import ServerClient, ServerReply

log = logging.getLogger(__name__)

_NO_ECHO = {LEAVE_OUT_HEADER: "responses_create_params,response"}
_CLOSE_TIMEOUT_S = 2.5
_CLOSE_TRIES = 2
_closings: set[asyncio.Task[None]] = set()
_NOTHING_TO_CLOSE = frozenset({404, 405, 409})
"""The server has no such route, or was restarted and has lost the session."""


class EndReason(StrEnum):
    """Why the policy loop ended."""

    FINAL_ANSWER = "final_answer"
    TERMINATED = "terminated"
    """The environment says that the episode is over."""
    USER_DONE = "user_done"
    """The simulated user has nothing more to say."""
    TRUNCATED = "truncated"
    """The environment cut the episode short."""
    MAX_STEPS = "max_steps"
    MAX_TURNS = "max_turns"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"

    @property
    def outcome(self) -> Outcome:
        return Outcome.COMPLETED if self in _COMPLETED else Outcome.TRUNCATED

    @classmethod
    def of_response(cls, response: Mapping[str, Any]) -> EndReason:
        """The reason that a finished Responses object gives."""
        details = response.get("incomplete_details")
        if not details:
            return cls.FINAL_ANSWER
        reason = details.get("reason")
        return cls.CONTENT_FILTER if reason == "content_filter" else cls.MAX_OUTPUT_TOKENS


class OnTruncation(StrEnum):
    """What becomes of the reward of an attempt that was cut short: by its context, its budget or its steps."""

    VERIFY = "verify"
    """What there is of it is scored as if it were whole."""
    ZERO = "zero"
    """Its reward is 0; no verifier is asked."""
    MASK = "mask"
    """It is scored, and its row says in `_ng_masked` and `mask_sample` that trainers should leave it out."""


_COMPLETED = frozenset({EndReason.FINAL_ANSWER, EndReason.TERMINATED, EndReason.USER_DONE})


@dataclass(slots=True)
class Act:
    """What the policy did: a Responses object whose output holds every turn, and why it ended."""

    response: dict[str, Any]
    end_reason: EndReason
    score: dict[str, Any] | None = None
    """The `reward`, and what belongs to it, where the environment scored while it was played; None asks `/verify`."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What the agent adds to the scored row."""


@dataclass(slots=True)
class Episode:
    """One attempt while it runs."""

    row: dict[str, Any]
    request: Request
    timing: dict[str, float] = field(default_factory=dict)
    """Seconds by phase."""

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = self.row["responses_create_params"]
        return params

    def on_truncation(self, of_agent: OnTruncation) -> OnTruncation:
        """What the row says about its truncation, or else its agent. Raises `InputError`."""
        stated = self.row.get("on_truncation", of_agent)
        try:
            return OnTruncation(stated)
        except ValueError as error:
            raise InputError(
                f"the row's `on_truncation` is {stated!r}",
                code="invalid_row",
                param="on_truncation",
                remedy=f"Give one of {', '.join(OnTruncation)}.",
            ) from error


class EpisodeOptions(Protocol):
    """The options of an agent that an episode depends on."""

    skip_verification: bool
    skip_verification_reward: float
    on_truncation: OnTruncation


class EpisodeAgent(Protocol):
    """An agent as the episode driver uses it."""

    @property
    def config(self) -> EpisodeOptions: ...

    @property
    def server_client(self) -> ServerClient: ...

    @property
    def resources_server_name(self) -> str: ...

    async def act(self, episode: Episode) -> Act:
        """The policy loop of one attempt."""
        ...


async def drive_episode(agent: EpisodeAgent, request: Request) -> dict[str, Any]:
    """The scored row of one attempt at the task row in `request`. Raises `GymError` when the attempt failed."""
    episode = Episode(parse_row(await request.body()), request)
    on_truncation = episode.on_truncation(agent.config.on_truncation)
    started = sources.monotonic()
    async with _Session(agent, episode):
        episode.timing["seed_session"] = acted = sources.monotonic() - started
        with _PolicyActing():
            act = await agent.act(episode)
        episode.timing["act"] = sources.monotonic() - started - acted
        scored = await _score(agent, episode, act, on_truncation)
    episode.timing["total"] = sources.monotonic() - started
    row = {
        **episode.row,
        **scored,
        **act.notes,
        # What the policy read and wrote, as it was: a verifier's typed echo of it may differ in small ways.
        "responses_create_params": episode.params,
        "response": act.response,
        "_ng_outcome": act.end_reason.outcome.value,
        "_ng_end_reason": act.end_reason.value,
        "_ng_timing": {phase: round(seconds, 6) for phase, seconds in episode.timing.items()},
        "_ng_usage": act.response.get("usage"),
    }
    return with_sequence_settled(row)


class _Session:
    """The session that the attempt plays in: open within the block, and closed whatever becomes of it."""

    def __init__(self, agent: EpisodeAgent, episode: Episode) -> None:
        self._client = agent.server_client
        self._resources = agent.resources_server_name
        self._row = episode.row

    async def __aenter__(self) -> None:
        try:
            seed = await self._client.post(self._resources, "/seed_session", data=orjson.dumps(self._row))
            require_ok(seed, self._resources, "open the session")
        except BaseException as error:
            is_undelivered = isinstance(error, TransportError) and error.failure.code in UNDELIVERED_CODES
            if not is_undelivered:
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        await close_quietly(self._client, self._resources, "/close_session")


class _PolicyActing:
    """Within the block no control route can be called: names in it may be a model's."""

    def __init__(self) -> None:
        self._context = current_context.get()
        self._was_acting = self._context is not None and self._context.is_policy_acting

    def __enter__(self) -> None:
        if self._context is not None:
            self._context.is_policy_acting = True

    def __exit__(self, *_: object) -> None:
        if self._context is not None:
            self._context.is_policy_acting = self._was_acting


def parse_row(body: bytes) -> dict[str, Any]:
    """The task row in a `/run` body; raises `InputError` that names what is wrong with it."""
    try:
        row = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the task row is not JSON: {error}", code="invalid_row") from error
    params = row.get("responses_create_params") if isinstance(row, dict) else None
    if not isinstance(params, dict) or not isinstance(params.get("input"), str | list):
        raise InputError(
            "a task row needs `responses_create_params` with an `input` that is a string or a list",
            code="invalid_row",
            param="responses_create_params.input",
        )
    assert isinstance(row, dict)
    return row


async def _score(
    agent: EpisodeAgent, episode: Episode, act: Act, on_truncation: OnTruncation
) -> dict[str, Any]:
    """The reward and what belongs to it. Raises `VerifierError` where nobody gave a finite one."""
    if agent.config.skip_verification:
        return {"reward": agent.config.skip_verification_reward}
    is_truncated = act.end_reason.outcome is Outcome.TRUNCATED
    if is_truncated and on_truncation is OnTruncation.ZERO:
        return {**(act.score or {}), "reward": 0.0}
    resources = agent.resources_server_name
    scored = act.score if act.score is not None else await _verify(agent, episode, act)
    if scored.get(FAILURE_CLASS_KEY):
        return scored
    reward = scored.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        raise _no_reward(resources, f"`reward` is {reward!r}")
    if is_truncated and on_truncation is OnTruncation.MASK:
        return {**scored, MASKED_KEY: True, "mask_sample": True}
    return scored


async def _verify(agent: EpisodeAgent, episode: Episode, act: Act) -> dict[str, Any]:
    started = sources.monotonic()
    resources = agent.resources_server_name
    body = orjson.dumps({**episode.row, "response": act.response})
    reply = await agent.server_client.post(resources, "/verify", data=body, headers=_NO_ECHO)
    require_ok(reply, resources, "verify the attempt")
    episode.timing["verify"] = sources.monotonic() - started
    try:
        verified = orjson.loads(reply.body)
    except orjson.JSONDecodeError as error:
        raise _no_reward(resources, f"its answer is not JSON: {error}") from error
    if not isinstance(verified, dict):
        raise _no_reward(resources, "its answer is not a JSON object")
    return verified


def _no_reward(resources: str, why: str) -> VerifierError:
    return VerifierError(
        f"`{resources}` gave no reward: {why}",
        code="no_reward",
        peer=resources,
        remedy="An environment must answer a finite number as `reward`.",
    )


async def close_quietly(client: ServerClient, server: str, path: str) -> None:
    """Have `server` free what this session holds, also when the rollout's deadline has passed.

    It is done all the same when the attempt is cancelled meanwhile. A failure to do so is logged: the attempt's own
    result stands, and the server's sweeper is the backstop.
    """
    try:
        await _close_and_tell(client, server, path)
    except asyncio.CancelledError:
        closing = asyncio.create_task(_close_and_tell(client, server, path))
        _closings.add(closing)  # the event loop itself would forget it
        closing.add_done_callback(_closings.discard)
        raise


async def _close_and_tell(client: ServerClient, server: str, path: str) -> None:
    context = current_context.get()
    reset = current_context.set(
        RequestContext(context.session, None, context.incarnations) if context else None
    )
    try:
        problem = await _close(client, server, path)
    finally:
        current_context.reset(reset)
    if problem is not None:
        log.warning("`%s` could not close a session: %s", server, problem)


async def _close(client: ServerClient, server: str, path: str) -> str | None:
    """Why the session could not be closed; None where it is. Asked again where no answer comes: twice is once."""
    for _ in range(_CLOSE_TRIES):
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                reply = await client.post(server, path, data=b"{}")
        except TimeoutError:
            continue
        except GymError as error:
            return str(error)
        return None if reply.ok or reply.status in _NOTHING_TO_CLOSE else f"HTTP {reply.status}"
    return f"no answer within {_CLOSE_TIMEOUT_S:g} s"


def require_ok(reply: ServerReply, server: str, purpose: str) -> None:
    """Raise the root cause of an error answer: the failure in it, or a `VerifierError` that quotes it."""
    if reply.ok:
        return
    raise error_of(failure_of(reply, server, purpose))


def failure_of(reply: ServerReply, server: str, purpose: str) -> Failure:
    passed_on = failure_of_reply(reply.reply)
    if passed_on is not None:
        return passed_on.passed_on_by(server)
    quoted = reply.body[:500].decode(errors="replace")
    return VerifierError(
        f"`{server}` could not {purpose}: HTTP {reply.status} {quoted}",
        code=f"http_{reply.status}",
        peer=server,
        retryable=reply.status in (408, 429, 502, 503, 504),
        status=500,
    ).failure
