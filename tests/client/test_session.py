"""Sessions over real HTTP: a head server, an agent, an environment, a model server and an engine on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from nemo_gym.client import AsyncGym, GymAddress
from nemo_gym.client._group import RolloutGroup
from nemo_gym.failures import GymError, InputError
from nemo_gym.rows.calls import read_calls
from responses_api_models.vllm_model.app import VLLMModel
from tests.client.gyms import TOKEN, LoopbackGym, rows, running_gym
from tests.waiting import until


@pytest.fixture
async def gym() -> AsyncIterator[LoopbackGym]:
    async with running_gym() as gym:
        yield gym


def client_of(gym: LoopbackGym) -> AsyncGym:
    return AsyncGym(GymAddress(gym.url, TOKEN))


async def take(groups: Any, count: int) -> list[RolloutGroup]:
    return [await anext(groups) for _ in range(count)]


async def test_tasks_come_in_while_groups_go_out(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=3) as session:
        keys = await session.submit(rows(2), keys=["a", "b"])
        assert keys == ["a", "b"]
        async with aclosing(session.groups()) as groups:
            first = await take(groups, 2)
            await session.submit(rows(5)[2:], ends=True)
            rest = [group async for group in groups]
        assert {group.key for group in first} == {"a", "b"}
        assert len(rest) == 3
        for group in first + rest:
            assert [rollout.task for rollout in group.rollouts] == [group.number] * 3
            assert sorted(rollout.repeat for rollout in group.rollouts) == [0, 1, 2]
            assert group.metric is not None
            await session.consumed(group)
        told = await session.describe()
        assert told["counters"]["admitted"] == told["counters"]["consumed"] == 5
    assert gym.open_sessions == 0


async def test_a_task_that_is_submitted_again_changes_nothing_and_a_later_round_is_another_group(
    gym: LoopbackGym,
) -> None:
    async with client_of(gym).session(group_size=2) as session:
        for _ in range(2):
            await session.submit(rows(1), keys=["a"])
        await session.submit(rows(1), keys=["a"], round=1, ends=True)
        assert [(group.key, group.round) async for group in session] == [("a", 0), ("a", 1)]


async def test_a_reader_that_was_killed_gets_what_it_has_not_consumed_again(gym: LoopbackGym) -> None:
    client = client_of(gym)
    async with client.session(group_size=2) as first:
        await first.submit(rows(4))
        async with aclosing(first.groups()) as groups:
            read = await take(groups, 4)
        await first.consumed(read[0])
        await first.detach()
        async with client.session(attach=first.id) as second:
            async with aclosing(second.groups(takeover=True)) as groups:
                again = await take(groups, 3)
            assert [group.cursor for group in again] == [group.cursor for group in read[1:]]
            assert [group.line for group in again] == [group.line for group in read[1:]]


async def test_a_second_reader_is_refused(gym: LoopbackGym) -> None:
    client = client_of(gym)
    async with client.session(group_size=1) as session:
        await session.submit(rows(1))
        async with aclosing(session.groups()) as groups:
            await anext(groups)
            other = client.session(attach=session.id)
            second = await other.__aenter__()
            with pytest.raises(InputError, match="another reader"):
                await anext(second.groups())
            await second.detach()


async def test_a_session_is_restored_from_its_state(gym: LoopbackGym) -> None:
    client = client_of(gym)
    async with client.session(group_size=2) as session:
        await session.submit(rows(6), keys=list("abcdef"), ends=True)
        async with aclosing(session.groups()) as groups:
            read = await take(groups, 3)
        await session.consumed(*read[:2])
        with_rows, without = await session.state(rows=True), await session.state()
    async with client.session(state=with_rows) as restored:
        found = [group async for group in restored]
        assert found[0].line == read[2].line
        assert sorted(group.key for group in found) == sorted({*"abcdef"} - {read[0].key, read[1].key})
    async with client.session(state=without) as restored:
        found = [group async for group in restored]
        assert sorted(group.key for group in found) == sorted({*"abcdef"} - {read[0].key, read[1].key})


async def test_a_group_with_too_few_scores_is_a_cancellation_with_its_cause(gym: LoopbackGym) -> None:
    tasks = rows(2)
    tasks[1]["responses_create_params"]["tools"] = "none"
    async with client_of(gym).session(group_size=2) as session:
        await session.submit(tasks, keys=["good", "bad"], ends=True)
        found = {group.key: group async for group in session.groups(cancellations=True)}
    assert found["good"].cancelled is None
    assert found["bad"].cancelled == "too_few"
    assert found["bad"].failed[0]["failure"]["message"]


async def test_versions_only_rise(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=1) as session:
        await session.set_version(3)
        with pytest.raises(InputError, match="version 2 is older"):
            await session.set_version(2)
        await session.set_version(2, reset=True)
        assert (await session.describe())["version"] == 2


async def test_control_reaches_a_session(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=1) as session:
        await session.pause()
        await session.submit(rows(2), keys=["a", "b"], ends=True)
        await session.cancel("a")
        await session.set(num_samples_in_parallel=3)
        told = await session.describe()
        assert told["waits_for"] == "resume"
        assert told["run"]["num_samples_in_parallel"] == 3
        await session.resume()
        found = {group.key: group.cancelled async for group in session.groups(cancellations=True)}
        assert found == {"a": "asked", "b": None}


async def test_a_session_that_the_gym_has_lost_starts_again_with_what_is_not_finished(
    gym: LoopbackGym,
) -> None:
    async with client_of(gym).session(group_size=2) as session:
        await session.submit(rows(3), keys=list("abc"))
        async with aclosing(session.groups()) as groups:
            (first,) = await take(groups, 1)
            await gym.head._sessions.stop()  # a new head server knows no session
            await session.submit(rows(4)[3:], keys=["d"], ends=True)
            rest = [group async for group in groups]
        await session.consumed(first, *rest)
        assert sorted([first.key, *(group.key for group in rest)]) == list("abcd")


async def test_groups_that_the_trainer_holds_keep_their_numbers_and_cursors_in_the_new_session(
    gym: LoopbackGym,
) -> None:
    async with client_of(gym).session() as session:
        state = await session.state()
    state["next_number"] = 1  # so the number of a group is not its cursor, as when a later one is ready first
    async with client_of(gym).session(state=state, group_size=1, num_samples_in_parallel=1) as session:
        await session.submit(rows(6), keys=list("abcdef"), ends=True)
        async with aclosing(session.groups()) as groups:
            held = await take(groups, 3)
            await gym.head._sessions.stop()
            rest = [group async for group in groups]
        found = [*held, *rest]
        await session.consumed(*found)
        assert sorted(group.key for group in found) == list("abcdef")
        assert len({group.number for group in found}) == len({group.cursor for group in found}) == len(found)
        assert (await session.describe())["groups"]["delivered"] == 0


async def test_leaving_a_session_cancels_what_is_in_flight(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=64) as session:
        await session.submit(rows(8))
        async with aclosing(session.groups()) as groups:
            await anext(groups)
    await until(lambda: not gym.open_sessions and not gym.head._runs)


async def test_new_weights_are_pushed_while_nothing_starts(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=2) as session:
        async with session.update_policy(3):
            await session.submit(rows(2))
            assert (await session.describe())["waits_for"] == "resume"
        assert session.version == (await session.describe())["version"] == 3
        async with aclosing(session.groups()) as groups:
            for group in await take(groups, 2):
                assert group.versions == ((3, 3), (3, 3))


async def test_after_a_push_that_failed_rollouts_start_again_with_the_old_version(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=1) as session:
        with pytest.raises(RuntimeError, match="no memory"):
            async with session.update_policy(1):
                raise RuntimeError("no memory")
        with pytest.raises(GymError, match="no model server named `policy`"):
            async with session.update_policy(1, server="policy"):
                pass
        told = await session.describe()
        assert (told["version"], told["run"]["phase"], session.version) == (0, "running", 0)
        await session.set_version(5)
        with pytest.raises(InputError, match="version 4 is older"):
            async with session.update_policy(4):
                raise AssertionError("the block is not entered")


async def test_the_last_groups_are_trained_on_when_no_rollout_is_left(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=1, groups_per_step=1) as session:
        await session.submit(rows(2), ends=True)
        async for group in session:
            await session.consumed(group)
            async with session.update_policy(session.version + 1):
                pass
        assert session.version == 2


async def test_an_update_does_not_end_a_pause_that_was_there_before(gym: LoopbackGym) -> None:
    async with client_of(gym).session(group_size=1) as session:
        await session.pause()
        async with session.update_policy(1):
            pass
        assert (await session.describe())["run"]["phase"] == "paused"


async def update_often(session: Any, count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0.15)
        async with session.update_policy(session.version + 1):
            await asyncio.sleep(0.02)


async def test_rollouts_go_on_over_updates_from_the_tokens_that_they_have() -> None:
    """Without updates and with them, rollouts have the same tokens, and no token is sampled twice."""
    sampled: list[set[tuple[int, ...]]] = []
    spans = 0
    for updates in (0, 4):
        async with (
            running_gym(with_tokens=True, token_input=True, tokens=100, tokens_per_s=150) as gym,
            client_of(gym).session(group_size=2, staleness={"bound": None}) as session,
        ):
            await session.submit(rows(2), ends=True)
            updating = asyncio.create_task(update_often(session, updates))
            groups = await take(aiter(session), 2)
            await updating
            records = [
                record for group in groups for each in group.rollouts for record in read_calls(each.row)
            ]
            tokens = [record.tokens for record in records if record.tokens is not None]
            assert len(tokens) == len(records) == 8
            sampled.append({tuple(each.generated) for each in tokens})
            assert gym.engine.stats.completion_tokens == sum(len(each.generated) for each in tokens)
            spans += sum(len(record.versions) > 1 for record in records)
            assert all(each.oldest <= each.newest for group in groups for each in group.versions)
    assert sampled[0] == sampled[1]
    assert spans > 0


async def phases(gym: LoopbackGym, session: Any) -> tuple[str, bool, bool]:
    """Return the phase of a session, and whether its model server and its engine are paused."""
    model = gym.gym.servers["policy_model"]
    assert isinstance(model, VLLMModel)
    return (
        (await session.describe())["run"]["phase"],
        model._policy.gate.is_closed,
        gym.engine.app._generations.is_paused,
    )


async def test_an_update_pauses_session_model_server_and_engine_and_every_error_resumes_them(
    gym: LoopbackGym,
) -> None:
    running = ("running", False, False)
    async with client_of(gym).session(group_size=1) as session:
        async with session.update_policy(1):
            assert await phases(gym, session) == ("paused", True, True)
        assert await phases(gym, session) == running
        async with session.update_policy(2, engine="keep"):
            assert await phases(gym, session) == ("paused", True, True)
        async with session.update_policy(3, engine="none"):
            assert await phases(gym, session) == ("paused", False, False)
        assert await phases(gym, session) == running
        with pytest.raises(RuntimeError, match="no memory"):
            async with session.update_policy(4):
                raise RuntimeError("no memory")
        assert await phases(gym, session) == running
        with pytest.raises(GymError, match="no route to pause with `wait`"):  # the stub speaks as sglang does
            async with session.update_policy(4, engine="wait"):
                raise AssertionError("the block is not entered")
        assert await phases(gym, session) == running
        with pytest.raises(GymError, match="VLLM_SERVER_DEV_MODE"):
            async with session.update_policy(4, reload_weights=True):
                pass
        assert await phases(gym, session) == running
        updating = asyncio.create_task(push_forever(session))
        await until(lambda: gym.engine.app._generations.is_paused)
        updating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await updating
        assert await phases(gym, session) == running
        assert session.version == (await session.describe())["version"] == 3


async def push_forever(session: Any) -> None:
    async with session.update_policy(9):
        await asyncio.sleep(60)
