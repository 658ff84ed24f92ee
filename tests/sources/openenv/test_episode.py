"""Attempts whose actions come from a client: their course, their verdict, and their end."""

from __future__ import annotations

import pytest

from nemo_gym.failures import GymError, InputError
from nemo_gym.rows.forms import TaskRow
from nemo_gym.sources.openenv.episode import ClientEpisode, MessageAction, ToolAction
from tests.sources.openenv.environments import CountServer, build_gym, build_row


def open_episode(row: TaskRow) -> tuple[ClientEpisode, CountServer]:
    gym, server = build_gym()
    return ClientEpisode(gym.client(), "counting", row), server


async def test_actions_are_turns_and_the_message_is_verified() -> None:
    episode, _ = open_episode(build_row("count to 5", level=3))
    opened = await episode.begin()
    assert [message["content"] for message in opened.observation["messages"]] == ["count to 5"]
    assert [tool["name"] for tool in opened.observation["tools"]] == ["count"]
    moves = [await episode.take(ToolAction("count", {"by": by})) for by in (2, 3)]
    assert [move.observation["result"] for move in moves] == ['{"total":2}', '{"total":5}']
    assert {(move.reward, move.is_done) for move in moves} == {(None, False)}
    ended = await episode.take(MessageAction("5"))
    assert (ended.reward, ended.is_done, ended.metadata) == (1.0, True, {"counted": 5})
    assert (episode.steps, episode.is_over) == (3, True)
    with pytest.raises(InputError, match="the episode is over"):
        await episode.take(MessageAction("5"))


async def test_a_wrong_call_is_told_to_the_policy() -> None:
    episode, _ = open_episode(build_row("count"))
    await episode.begin()
    unknown = await episode.take(ToolAction("verify", {}))
    assert "there is no tool named 'verify'" in unknown.observation["result"]
    unfit = await episode.take(ToolAction("count", {"by": "many"}))
    assert "do not fit its parameters" in unfit.observation["result"]
    assert (await episode.take(MessageAction("0"))).reward == 1.0


async def test_an_environment_may_go_on_after_a_message() -> None:
    episode, _ = open_episode(build_row("count", turns=2))
    await episode.begin()
    await episode.take(ToolAction("count", {"by": 4}))
    following = await episode.take(MessageAction("4"))
    assert (following.reward, following.is_done) == (None, False)
    assert [message["content"] for message in following.observation["messages"]] == ["go on"]
    assert (await episode.take(MessageAction("4"))).reward == 1.0


async def test_a_verifier_that_fails_gives_no_reward() -> None:
    episode, _ = open_episode(build_row("count", is_broken=True))
    await episode.begin()
    with pytest.raises(GymError, match="the verifier is broken"):
        await episode.take(MessageAction("0"))
    assert episode.is_over


async def test_a_session_that_cannot_be_opened_is_told_at_once() -> None:
    gym, _ = build_gym()
    with pytest.raises(GymError, match="nowhere"):
        await ClientEpisode(gym.client(), "nowhere", build_row("count")).begin()


async def test_the_session_is_closed_however_the_attempt_ends() -> None:
    for action in (None, MessageAction("0")):
        episode, server = open_episode(build_row("count"))
        await episode.begin()
        sessions = server.middleware.access.sessions
        assert sessions.data(episode.id) is not None
        if action is not None:
            await episode.take(action)
        await episode.close()
        await episode.close()
        assert sessions.is_closed(episode.id)
