"""Base URLs of servers, and the choice of a replica."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.transport import Directory
from nemo_gym.transport.directory import choose_home, head_url, list_bound_hosts


def test_a_session_stays_with_its_replica_and_most_stay_when_one_goes() -> None:
    urls = [f"http://{letter}" for letter in "abcd"]
    four, three = Directory({"env": urls}), Directory({"env": urls[:3]})
    before = {str(n): four.choose("env", str(n)) for n in range(400)}
    assert before == {session: four.choose("env", session) for session in before}
    assert set(before.values()) == set(urls)
    moved = [session for session, url in before.items() if three.choose("env", session) != url]
    assert {before[session] for session in moved} == {urls[3]}


@given(st.text(max_size=20), st.integers(1, 20), st.integers(1, 20))
@settings(max_examples=50)
def test_a_session_moves_only_to_an_added_replica_or_from_a_removed_one(
    session: str, before: int, after: int
) -> None:
    fewer, more = sorted((before, after))
    home = choose_home(session, more)
    assert 0 <= home < more
    assert choose_home(session, fewer) == home or home >= fewer


def test_the_share_that_moves_is_that_of_the_added_replicas() -> None:
    sessions = [f"task-{n}" for n in range(1000)]
    for before, after in ((20, 25), (20, 21), (3, 4)):
        moved = sum(choose_home(each, before) != choose_home(each, after) for each in sessions)
        share = 1 - before / after
        deviation = (len(sessions) * share * (1 - share)) ** 0.5
        assert abs(moved - len(sessions) * share) < 4 * deviation


def test_calls_without_a_session_take_turns() -> None:
    directory = Directory({"env": ["http://a", "http://b"]})
    assert [directory.choose("env", None) for _ in range(4)] == ["http://a", "http://b"] * 2


def test_the_directory_reads_hosts_ports_and_replicas_from_the_configuration() -> None:
    config = {
        "env": {"resources_servers": {"x": {"host": "0.0.0.0", "port": 5, "_ng_replica_ports": [5, 6]}}},
        "agent": {"responses_api_agents": {"y": {"host": "::1", "port": 7}}},
        "not_started": {"responses_api_models": {"z": {"entrypoint": "app.py"}}},
        "policy_base_url": "http://elsewhere",
    }
    directory = Directory.from_config(config)
    assert directory.replicas("env") == ("http://127.0.0.1:5", "http://127.0.0.1:6")
    assert directory.replicas("agent") == ("http://[::1]:7",)
    assert directory.names() == ("env", "agent")


def test_a_second_name_of_an_agent_has_its_addresses() -> None:
    config = {
        "solver": {
            "responses_api_agents": {"simple_agent": {"host": "h", "port": 1, "_ng_replica_ports": [1, 2]}}
        },
        "solver_environment": {"environment_servers": {"legacy_agent": {"agent_server": {"name": "solver"}}}},
        "of_nothing": {"environment_servers": {"legacy_agent": {"agent_server": {"name": "missing"}}}},
        "duel": {"environment_servers": {"duel": {"host": "h", "port": 3}}},
    }
    directory = Directory.from_config(config)
    assert (
        directory.replicas("solver_environment")
        == directory.replicas("solver")
        == ("http://h:1", "http://h:2")
    )
    assert directory.names() == ("solver", "duel", "solver_environment")


def test_the_addresses_of_a_configuration_are_read() -> None:
    config = {
        "head_server": {"host": "10.0.0.1", "port": 7},
        "env": {"resources_servers": {"x": {"host": "10.0.0.2", "port": 5}}},
        "policy_base_url": "http://elsewhere",
        "odd": {"resources_servers": {"x": "text"}},
    }
    assert head_url(config) == "http://10.0.0.1:7"
    assert head_url({**config, "tls": {"cert": "x"}}) == "https://10.0.0.1:7"
    assert list(list_bound_hosts(config)) == ["10.0.0.1", "10.0.0.2"]
