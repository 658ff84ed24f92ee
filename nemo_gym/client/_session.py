"""An open rollout session, for event loops."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

from nemo_gym.client._group import RolloutGroup, StalenessPolicy, read_group
from nemo_gym.client._session_connection import EngineTreatment, SessionConnection, is_lost
from nemo_gym.client._session_mistakes import (
    describe_stall,
    refuse_closed,
    refuse_foreign,
    refuse_second_loop,
    refuse_version,
)
from nemo_gym.failures import Boundary, Failure, GymError, InputError, TransportError, build_error
from nemo_gym.names import ALIVE_KEY, END_KEY
from nemo_gym.rows.forms import AnyRow

if TYPE_CHECKING:
    from nemo_gym.client._gym import AsyncGym

log = logging.getLogger(__name__)

_BATCH = 256
"""Tasks in one request."""
_MOST_PASSED = 32
"""Cancellations that are acknowledged together."""
_FULL_WAIT_S = 0.1
_STALLED_SIGNS = 5
"""Signs of life without a group, after which the reader is told that it has to consume."""


class RolloutSessionOptions(TypedDict, total=False):
    """The options of a session (docs/train_asynchronously.md)."""

    group_size: int
    """Rollouts of a task, which share a baseline; default 8."""
    groups_per_step: int | None
    """Groups that the trainer takes for a step."""
    min_members: int | None
    """Scored rollouts that a group needs; by default all."""
    staleness: Mapping[str, Any]
    """`{bound, of, then, baseline}`."""
    order: Literal["ready_first", "fifo"]
    useful: Mapping[str, Any] | None
    """Dynamic sampling: `{metric, min_std, stop_at, surplus, max_oversampling}`."""
    curriculum: Mapping[str, Any] | None
    """`{unsolved_at, solved_at, weights, seed}`."""
    reserve: int
    max_waiting_tasks: int
    max_unconsumed_groups: int | None
    max_unconsumed_mib: int
    grace_s: float
    """Seconds without a request after which the session ends; default 600."""
    num_samples_in_parallel: int | Literal["auto"]
    """Rollouts in flight; default 64."""
    max_attempts: int
    rollout_timeout_s: float | None
    stop_after_identical_failures: int
    num_repeats_add_seed: bool
    agent_name: str
    responses_create_params: Mapping[str, Any]


class AsyncRolloutSession:
    """An open session. `async with gym.session(...)` opens and ends it."""

    def __init__(self, gym: AsyncGym, options: RolloutSessionOptions, *, reconnect_s: float = 60.0) -> None:
        """`reconnect_s`: seconds for which an unreachable gym is tried again."""
        self._gym = gym
        self._connection = SessionConnection(gym, reconnect_s=reconnect_s)
        self._options = options
        self._reader = uuid.uuid4().hex
        self.id = ""
        self.version = 0
        """The version of the policy that the session was told last."""
        self._policy = StalenessPolicy()
        self._is_ours = True
        """Whether this object has opened it, and so can open it again."""
        self._after = -1
        self._next_number = 0
        """Above the numbers of all groups that have come."""
        self._known: dict[str, list[Any]] = {}
        """Key → digest and last round."""
        self._unfinished: dict[tuple[str, int], AnyRow] = {}
        """The tasks whose groups have not come, by key and round."""
        self._held: dict[int, RolloutGroup] = {}
        """The groups that were yielded and not consumed, by cursor."""
        self._passed: list[int] = []
        """The cursors of cancellations to acknowledge."""
        self._stale: list[int] = []
        """The cursors of groups to refuse."""
        self._loops = 0
        """The loops over groups that have begun; the last one reads."""
        self._has_ended = False
        self._is_closed = False
        self._opening = asyncio.Lock()

    # --- Opening and ending -------------------------------------------------------------------------------------

    async def open(self, state: Mapping[str, Any] | None = None) -> Self:
        """Open the session, restored from `state` if given."""
        body = {**self._options, **({"state": state} if state is not None else {})}
        opened = await self._connection.ask("POST", "", body)
        self._take_over(opened)
        for task in (state or {}).get("tasks", ()):
            self._unfinished[task["key"], task["round"]] = task["row"]
        self._known |= {key: list(known) for key, known in (state or {}).get("known", {}).items()}
        self._has_ended = bool((state or {}).get("ended"))
        self._next_number = int((state or {}).get("next_number", 0))
        return self

    def __aiter__(self) -> AsyncGenerator[RolloutGroup, None]:
        return self.groups()

    async def attach(self, session_id: str) -> Self:
        """Use a session that is open, such as that of a trainer that was killed. Its unconsumed groups come again."""
        self._is_ours = False
        self._take_over(await self._connection.ask("GET", f"/{session_id}"))
        return self

    def _take_over(self, told: Mapping[str, Any]) -> None:
        self.id, self.version = told["id"], told["version"]
        stale, options = told["options"]["staleness"], told["options"]
        least = options["min_members"] or options["group_size"]
        self._policy = StalenessPolicy(stale["bound"], stale["of"], stale["then"], least)

    async def _open_again(self, lost: str) -> None:
        """Open another session in place of one that the gym has lost, with the tasks that are not finished."""
        async with self._opening:
            if self.id != lost:  # another call has done it
                return
            log.warning("the gym has lost the session %s: tasks without a group start again", lost)
            state = {
                "schema": 1,
                "version": self.version,
                "next_number": self._next_number,
                "next_cursor": self._after + 1,
                "known": self._known,
                "tasks": [
                    {"key": key, "round": round, "digest": self._known[key][0], "row": row}
                    for (key, round), row in self._unfinished.items()
                ],
                "lines": [group.to_line() for group in self._held.values()],
                "counters": {"submitted": 0, "cancelled": {}},
                "ended": self._has_ended,
            }
            self._take_over(await self._connection.ask("POST", "", {**self._options, "state": state}))

    async def close(self) -> None:
        """End the session; everything in flight is cancelled. A session that was left stays open."""
        if self._is_closed:
            return
        self._is_closed = True
        with suppress(GymError):  # the session has ended, or the gym has
            await self._connection.ask("DELETE", f"/{self.id}")
        await self._connection.close()

    async def detach(self) -> None:
        """Leave the session open, for another process or for later."""
        self._is_closed = True
        await self._connection.close()

    # --- Tasks in -----------------------------------------------------------------------------------------------

    async def submit(
        self,
        rows: Iterable[AnyRow],
        *,
        keys: Sequence[str] | None = None,
        round: int = 0,
        ends: bool = False,
    ) -> list[str]:
        """Add tasks, and return their keys. A task that was submitted in this round before changes nothing.

        Waits while the session's queue is full.

        Args:
            rows: task rows.
            keys: stable names of the tasks; by default the digests of the rows.
            round: a later round attempts the same keys again, such as in the next epoch.
            ends: no further tasks come; the groups end when all are out.

        Raises:
            InputError: rows, keys or agents are invalid; none of the batch was added.
            TransportError: the gym is unreachable.
        """
        tasks = [{"row": row, "round": round} for row in rows]
        if keys is not None:
            if len(keys) != len(tasks):
                raise InputError(f"{len(tasks)} rows have {len(keys)} keys", code="keys_missing")
            tasks = [{**task, "key": key} for task, key in zip(tasks, keys, strict=True)]
        found: list[str] = []
        for start in range(0, len(tasks), _BATCH):
            batch = tasks[start : start + _BATCH]
            found += await self._post_tasks(batch, ends=ends and start + _BATCH >= len(tasks))
        if ends and not tasks:
            await self._post_tasks([], ends=True)
        self._has_ended |= ends
        return found

    async def _post_tasks(self, tasks: Sequence[Mapping[str, Any]], *, ends: bool) -> list[str]:
        body = b"\n".join(json.dumps(task).encode() for task in tasks)
        path = f"/tasks{'?end=true' if ends else ''}"
        while True:
            try:
                told = await self._call("POST", path, lines=body)
                break
            except GymError as error:
                if error.failure.code != "queue_full":
                    raise
                await asyncio.sleep(_FULL_WAIT_S)
        for key, digest, task in zip(told["keys"], told["digests"], tasks, strict=True):
            known = self._known.get(key)
            if known is None or task["round"] > known[1]:
                self._known[key] = [digest, task["round"]]
                self._unfinished[key, task["round"]] = task["row"]
        return list(told["keys"])

    # --- Groups out ---------------------------------------------------------------------------------------------

    async def groups(
        self, *, cancellations: bool = False, takeover: bool = False
    ) -> AsyncGenerator[RolloutGroup, None]:
        """Yield groups as they are delivered, until the input has ended and all are out.

        Tell with `consumed` which ones were trained on: the session delivers only so many before. A lost connection
        continues after the last group.

        Args:
            cancellations: also yield the cancellations, which have a reason and no rollouts.
            takeover: read in place of another reader, which is gone.

        Raises:
            InputError: the session has another reader, or another loop of this client has begun to read it.
            TransportError: the gym was unreachable for too long.
            GymError: the session was stopped, because rollouts failed in the same way or too few groups were useful.
        """
        if self._is_closed:
            raise refuse_closed(self.id)
        self._loops += 1
        mine = self._loops
        while True:
            lines = self._read_lines(takeover)
            async with aclosing(lines):
                async for line in lines:
                    self._check_loop(mine)
                    if END_KEY in line:
                        self._raise_stop(line[END_KEY])
                        return
                    group = self._take(read_group(line), cancellations)
                    if group is not None:
                        yield group
                    if len(self._passed) + len(self._stale) >= _MOST_PASSED:
                        await self._acknowledge()
            self._check_loop(mine)

    def _check_loop(self, mine: int) -> None:
        if mine != self._loops:
            raise refuse_second_loop(self.id)

    def _take(self, group: RolloutGroup, cancellations: bool) -> RolloutGroup | None:
        """Return a group as it may be trained on now; None if it is not to be yielded."""
        self._after = max(self._after, group.cursor)
        self._next_number = max(self._next_number, group.number + 1)
        self._unfinished.pop((group.key, group.round), None)
        if group.cancelled is not None:
            self._passed.append(group.cursor)
            return group if cancellations else None
        cut = group.cut_stale(self._policy, self.version)
        if cut is None:
            self._stale.append(group.cursor)
        else:
            self._held[cut.cursor] = cut
        return cut

    async def _read_lines(self, takeover: bool) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the lines of one connection, without the signs of life; return when it is lost."""
        session, signs = self.id, 0
        query = f"after={self._after}&reader={self._reader}{'&takeover=true' if takeover else ''}"
        async for is_last in self._connection.attempts():
            try:
                async with aclosing(self._connection.read(f"/{session}/groups?{query}")) as lines:
                    async for line in lines:
                        if self.id != session:  # its tasks start again in another one
                            return
                        if ALIVE_KEY in line:
                            signs += 1
                            await self._note_sign(line[ALIVE_KEY], signs)
                        else:
                            signs = 0
                            yield line
                return
            except TransportError as error:
                if error.failure.code == "disconnected":
                    return  # read on from the last cursor
                if is_last:
                    raise
            except GymError as error:
                if not is_lost(error) or not self._is_ours:
                    raise
                await self._open_again(session)
                return

    async def _note_sign(self, sign: Mapping[str, Any], signs: int) -> None:
        if self._passed or self._stale:
            await self._acknowledge()
        elif signs == _STALLED_SIGNS and (stall := describe_stall(sign)) is not None:
            log.warning("the session delivers nothing: %s", stall)

    def _raise_stop(self, end: Mapping[str, Any]) -> None:
        stop = end.get("stop")
        if stop is not None and stop["code"] != "drained" and not self._is_closed:
            raise build_error(
                Failure(Boundary.AGENT, stop["code"], stop["message"], remedy=stop.get("remedy"))
            )

    async def consumed(self, *groups: RolloutGroup, version: int | None = None) -> None:
        """Tell that groups took part in a step of the trainer. Until then a killed trainer gets them again.

        `version`: the policy's version that was trained with them; by default the session's.
        """
        cursors = [group.cursor for group in groups]
        for group in groups:
            read = self._held.get(group.cursor, group)
            if group.cursor > self._after or (read.key, read.round) != (group.key, group.round):
                raise refuse_foreign(group, self.id)
        await self._acknowledge()
        if cursors:
            body = {"cursors": cursors, "version": self.version if version is None else version}
            await self._call("POST", "/consumed", body)
        for cursor in cursors:
            self._held.pop(cursor, None)

    async def _acknowledge(self) -> None:
        for cursors, is_refused in ((self._passed, False), (self._stale, True)):
            if told := list(cursors):
                await self._call("POST", "/consumed", {"cursors": told, "refused": is_refused})
                del cursors[: len(told)]

    # --- Control ------------------------------------------------------------------------------------------------

    async def set_version(self, version: int, *, reset: bool = False) -> None:
        """Tell the session of a version of the policy, whose weights the engine has. `reset` lets it go back."""
        await self._call("POST", "/version", {"version": version, "reset": reset})
        self.version = version

    @asynccontextmanager
    async def update_policy(
        self,
        version: int,
        *,
        server: str = "policy_model",
        engine: EngineTreatment = "abort",
        drop_in_flight: bool = False,
        reload_weights: bool = False,
        reset: bool = False,
    ) -> AsyncIterator[None]:
        """Pause rollouts and engines while the block gives the engines new weights; then begin the version, and go on.

        If the block or the model server fails, everything goes on, and the version is the old one.

        Args:
            server: the model server's name.
            engine: what becomes of generations in flight. `abort` ends them with the tokens that they have, from which
                they go on with the new weights; `keep` lets them stand still and go on with the KV cache of the old
                weights; `wait` lets them end first; `none` pauses no engine and no model call.
            drop_in_flight: cancel model calls that started with an earlier version; their attempts are made again.
            reload_weights: have the engine load its weights from the model's folder.
            reset: let the version go back, such as to that of a checkpoint.

        Raises:
            InputError: the version goes back without `reset`; the block was not entered.
            GymError: the model server is not there or refused the update, or its engine cannot pause.
        """
        if version < self.version and not reset:
            raise refuse_version(version, self.version)
        paused = await self._control("pause")
        try:
            async with self._gym._paused(server, engine):
                yield
                await self._gym.update_policy(
                    version, server=server, drop_in_flight=drop_in_flight, reload_weights=reload_weights
                )
                await self.set_version(version, reset=reset)
        finally:
            if paused["changes"]:  # otherwise it was paused before
                await self.resume()

    async def pause(self) -> None:
        """Start no rollout until `resume`; those in flight go on."""
        await self._control("pause")

    async def resume(self) -> None:
        await self._control("resume")

    async def drain(self) -> None:
        """Start nothing more; the groups end with the rollouts in flight."""
        await self._control("drain")

    async def cancel(self, key: str) -> None:
        """Cancel the group of a key, which comes out as a cancellation."""
        await self._control("cancel", key=key)

    async def requeue(self, key: str) -> None:
        """Attempt the task of a key again, in a later round. A group of it that is not out yet is cancelled."""
        await self._control("requeue", key=key)

    async def set(self, **tuning: Any) -> None:
        """Change `num_samples_in_parallel`, `max_attempts` or `rollout_timeout_s`."""
        await self._control("set", **tuning)

    async def _control(self, verb: str, **fields: Any) -> Any:
        return await self._call("POST", "/control", {"verb": verb, "by": "session", **fields})

    async def describe(self) -> dict[str, Any]:
        """Return its counters, and what its policies cost."""
        told: dict[str, Any] = await self._call("GET", "")
        return told

    async def state(self, *, rows: bool = False) -> dict[str, Any]:
        """Return its state as JSON, for a checkpoint: `gym.session(state=...)` goes on from it.

        `rows`: keep delivered groups that are not consumed with their rows; else their tasks are attempted again.
        """
        await self._acknowledge()
        state: dict[str, Any] = await self._call("GET", f"/state?rows={'true' if rows else 'false'}")
        return state

    async def _call(self, method: str, path: str, body: Any = None, *, lines: bytes | None = None) -> Any:
        """Make a call below the session's route, in another session if the gym has lost it."""
        session = self.id
        if self._is_closed:
            raise refuse_closed(session)
        try:
            return await self._connection.ask(method, f"/{session}{path}", body, lines=lines)
        except GymError as error:
            if not is_lost(error) or not self._is_ours:
                raise
        await self._open_again(session)
        return await self._connection.ask(method, f"/{self.id}{path}", body, lines=lines)
