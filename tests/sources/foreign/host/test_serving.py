"""The answers of a host to requests, without a process. `tests/sources/foreign/test_process.py` runs real ones."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sources.foreign.host.serving import (
    Host,
    answer_in_time,
    load_kind,
    raise_timeout,
    seed_everything,
)
from tests.sources.foreign.programs import WAYWARD


def ask(host: Host, request: str, **fields: Any) -> dict[str, Any]:
    return answer_in_time(host, {"v": 1, "id": 1, "type": request, **fields})


@pytest.fixture
def host() -> Host:
    found = Host(str(WAYWARD))
    assert ask(found, "hello", versions=[1], name="env", options={})["type"] == "result"
    return found


def test_a_greeting_tells_the_kind_and_the_interpreter(host: Host) -> None:
    answer = ask(host, "hello", versions=[1], name="env", options={})
    assert (answer["kind"], answer["version"]) == ("wayward_kind", 1)


def test_a_gym_of_other_versions_is_refused() -> None:
    answer = ask(Host(str(WAYWARD)), "hello", versions=[2, 3], name="env", options={})
    assert (answer["type"], answer["code"]) == ("error", "unsupported")


def test_the_first_request_is_a_greeting() -> None:
    assert ask(Host(str(WAYWARD)), "describe")["code"] == "bad_request"


@pytest.mark.parametrize("request_type", ["run", "build", "__init__", None])
def test_what_a_kind_does_not_have_is_unsupported(host: Host, request_type: Any) -> None:
    assert ask(host, request_type)["code"] == "unsupported"


def test_tasks_are_listed_in_pages(host: Host) -> None:
    first = ask(host, "tasks", limit=3)
    assert (len(first["tasks"]), first["cursor"]) == (3, 3)
    assert len(ask(host, "tasks", cursor=3, limit=5000)["tasks"]) == 2


def test_a_request_that_takes_too_long_is_ended(host: Host) -> None:
    before = signal.signal(signal.SIGALRM, raise_timeout)
    try:
        ask(host, "open", task={}, seed=0)
        assert ask(host, "step", seat=0, text="sleep", calls=[], deadline_s=0.2)["code"] == "timeout"
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_seed_is_that_of_all_random_numbers() -> None:
    seed_everything(7)
    first = random.random()
    seed_everything(7)
    assert random.random() == first


def test_a_kind_is_a_module_of_ours_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def build(name, options): ...\n")
    assert callable(load_kind(str(file)).build)
    with pytest.raises(ModuleNotFoundError):
        load_kind("there_is_no_such_kind")
