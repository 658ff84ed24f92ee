from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.head._rollout_request import NDJSON, RolloutRequest, read_request
from tests.rollouts.doubles import AGENT, identities, task_row

CONFIG = {AGENT: {"responses_api_agents": {"simple_agent": {"port": 1}}}}


def read(body: Any, kind: str = "application/json", **query: str) -> RolloutRequest:
    return read_request(body if isinstance(body, bytes) else orjson.dumps(body), kind, query, CONFIG)


def sent(request: RolloutRequest) -> list[dict[str, Any]]:
    return [orjson.loads(planned.body()) for planned in request.plan()]


def test_both_bodies_say_the_same() -> None:
    rows = [task_row(number) for number in range(2)]
    lines = b"\n".join(map(orjson.dumps, rows)) + b"\n\n"
    as_json = read({"rows": rows, "num_repeats": 3, "rollout_timeout_s": 9})
    as_lines = read(lines, f"{NDJSON}; charset=utf-8", num_repeats="3", rollout_timeout_s="9")
    assert as_json.options == as_lines.options
    assert sent(as_json) == sent(as_lines)
    assert identities(sent(as_json)) == [(task, repeat) for task in range(2) for repeat in range(3)]
    assert as_json.planned == 6


def test_rows_are_shaped_as_those_of_a_dataset() -> None:
    row = {**task_row(0, agent=None), "_ng_task_index": 77}
    body = {"rows": [row], "agent_name": AGENT, "responses_create_params": {"temperature": 0.5}}
    (first, second) = sent(read({**body, "num_repeats": 2, "num_repeats_add_seed": True}))
    assert first["_ng_task_index"] == 0
    assert first["agent_ref"]["name"] == AGENT
    assert first["responses_create_params"]["temperature"] == 0.5
    assert orjson.loads(second["responses_create_params"]["metadata"]["extra_body"]) == {"seed": 1}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "not JSON"),
        (b"", "`rows`"),
        ({"row": []}, "`rows`"),
        ({"rows": [], "num_repeats": 0}, "num_repeats"),
        ({"rows": [], "num_repeats": "8"}, "num_repeats"),
        ({"rows": [], "num_repeat": 8}, "num_repeats"),
        ({"rows": [{}, task_row(0, agent="missing_agent")]}, "rows[0].responses_create_params is missing"),
        ({"rows": [[]]}, "rows[0] must be a JSON object"),
        ({"rows": [task_row(0, agent="simple_agnet")]}, "simple_agnet"),
    ],
)
def test_every_problem_is_reported(body: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read(body)
    assert told in str(caught.value)
    assert caught.value.failure.http_status == 422


def test_the_only_agent_of_a_gym_attempts_rows_that_name_none() -> None:
    body = orjson.dumps({"rows": [task_row(0, agent=None)]})
    (attempt,) = read_request(body, "application/json", {}, CONFIG).plan()
    assert attempt.agent == AGENT
    with pytest.raises(InputError, match="no \\+agent_name is set"):
        read_request(body, "application/json", {}, {**CONFIG, "second_agent": CONFIG[AGENT]})


def test_problems_of_options_rows_and_agents_are_reported_together() -> None:
    rows = [{}, {"responses_create_params": {}}, task_row(0, agent="missing_agent"), task_row(1)]
    with pytest.raises(InputError) as caught:
        read({"rows": rows, "num_repeats": 0, "num_repeat": 1, "agent_name": AGENT})
    for told in (
        "num_repeats: ",
        "num_repeat: ",
        "rows[0].responses",
        "rows[1].responses",
        "`missing_agent`",
    ):
        assert told in str(caught.value)
    assert "agent_ref is missing" not in str(caught.value), "the sound options hold while the rest is read"
    assert caught.value.failure.param == "num_repeats"


def test_a_long_list_of_problems_is_counted() -> None:
    with pytest.raises(InputError, match="and 30 more"):
        read({"rows": [{"responses_create_params": {}}] * 50, "agent_name": AGENT})


def test_no_rows_are_no_error() -> None:
    assert read({"rows": []}).planned == 0


@pytest.mark.parametrize("kind", ["application/json", NDJSON])
@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"n": [1 << 64]}, r"rows\[1\]\.n\[0\] is an integer of more than 64 bit"),
        ({"n": json.loads("[" * 300 + "]" * 300)}, r"rows\[1\] has 301 levels"),
    ],
)
def test_rows_that_a_server_could_not_keep_are_refused(kind: str, extra: Any, told: str) -> None:
    rows = [task_row(0), {**task_row(1), **extra}]
    body = json.dumps({"rows": rows}) if kind != NDJSON else "\n".join(map(json.dumps, rows))
    with pytest.raises(InputError, match=told):
        read(body.encode(), kind)


@pytest.mark.parametrize("params", [{"seed": 1 << 70}, {"metadata": {"n": [-(1 << 64)]}}])
def test_an_option_that_a_server_could_not_keep_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="is an integer of more than 64 bit"):
        read(json.dumps({"rows": [task_row(0)], "responses_create_params": params}).encode())


@pytest.mark.parametrize(
    "options",
    [
        {"num_repeats": 1 << 70},
        {"num_samples_in_parallel": 1 << 70},
        {"max_attempts": 1 << 70},
        {"stop_after_identical_failures": 1 << 70},
        {"rollout_timeout_s": -1},
    ],
)
def test_options_of_any_size_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        read(json.dumps({"rows": [task_row(0)], **options}).encode())
    lines = "\n".join([json.dumps(task_row(0))]).encode()
    with pytest.raises(InputError, match="rollout_timeout_s"):
        read(lines, NDJSON, rollout_timeout_s="inf")
