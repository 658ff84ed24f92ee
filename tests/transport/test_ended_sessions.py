"""The names of sessions that are over wait for the next call of their process."""

from __future__ import annotations

from nemo_gym.transport import Call, Directory
from nemo_gym.transport.context import ENDED_HEADER
from nemo_gym.transport.ended_sessions import EndedSessions, read_ended


def take(ended: EndedSessions, session: str | None = "next") -> list[str]:
    call = Call("POST", "/v1/responses", session=session)
    ended.tell("model", call, None)
    return read_ended(call.headers[ENDED_HEADER].encode()) if ENDED_HEADER in call.headers else []


def test_a_call_takes_all_names_once() -> None:
    ended = EndedSessions(Directory({"model": ["http://a"], "judge": ["http://b"]}))
    for session in ("1-0-a1", "2-0-a1"):
        ended.add("model", session)
    ended.add("judge", "3-0-a1")
    assert take(ended, None) == ["1-0-a1", "2-0-a1"]
    assert take(ended) == []


def test_each_replica_is_told_of_its_own_sessions() -> None:
    directory = Directory({"model": ["http://a", "http://b", "http://c"]})
    ended = EndedSessions(directory)
    sessions = [str(number) for number in range(30)]
    for session in sessions:
        ended.add("model", session)
    assert take(ended, None) == []
    homes = {directory.choose("model", session): session for session in sessions}
    assert len(homes) == 3
    for url, session in homes.items():
        assert take(ended, session) == [each for each in sessions if directory.choose("model", each) == url]


def test_a_server_that_is_not_called_again_costs_a_few_names() -> None:
    ended = EndedSessions(Directory({"model": ["http://a"]}))
    for number in range(1_000):
        ended.add("model", str(number))
    assert take(ended) == [str(number) for number in range(936, 1_000)]


def test_a_name_that_would_read_as_two_is_left_out() -> None:
    ended = EndedSessions(Directory({"model": ["http://a"]}))
    ended.add("model", "a,b")
    assert take(ended) == []
