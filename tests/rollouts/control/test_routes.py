"""Requests over HTTP: their paths and bodies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.control.routes import answer
from tests.rollouts.control.controlled import build_controlled
from tests.rollouts.doubles import Agents


def ask(method: str, path: str, body: bytes = b"") -> Any:
    async def send() -> Any:
        return await answer({"rollouts": build_controlled(Agents(), 2).control}, method, path, body)

    return asyncio.run(send())


def test_runs_are_listed_and_shown() -> None:
    shown = ask("GET", "/_ng/runs/rollouts")
    assert ask("GET", "/_ng/runs") == {"runs": [shown]}
    assert (shown["phase"], shown["counts"]["planned"], shown["in_flight"]) == ("running", 2, {})


def test_a_verb_is_a_path_and_its_fields_are_a_body() -> None:
    told = ask("POST", "/_ng/runs/rollouts/set", b'{"max_attempts": 5, "dry_run": true}')
    assert (told["changes"], told["dry_run"]) == (("max_attempts: 3 -> 5",), True)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/_ng/runs/other/pause", b"", 404, "there is no run 'other'.*Runs: rollouts"),
        ("POST", "/_ng/runs/rollouts/stop", b"", 404, "no route POST .*one of pause, resume, drain"),
        ("GET", "/_ng/runs/rollouts/pause", b"", 404, "no route GET"),
        ("POST", "/_ng/runs/rollouts/set", b"{", 422, "the body is not JSON"),
        ("POST", "/_ng/runs/rollouts/set", b'{"concurrency": 4}', 422, "there is no such field; fields are"),
        ("POST", "/_ng/runs/rollouts/set", b'{"max_attempts": "4"}', 422, "max_attempts: .*valid integer"),
        (
            "POST",
            "/_ng/runs/rollouts/set",
            b'{"max_attempts": 0, "rollout_timeout_s": -1}',
            422,
            "max_attempts: .*; rollout_timeout_s: ",
        ),
        ("POST", "/_ng/runs/rollouts/cancel", b'{"rollouts": ["one"]}', 422, "'one' is no rollout; write"),
        (
            "POST",
            "/_ng/runs/rollouts/set",
            b'{"num_samples_in_parallel": 0}',
            422,
            "valid: num_samples_in_parallel: 0 is neither a whole number of at least 1 nor `auto`$",
        ),
        ("POST", "/_ng/runs/rollouts/set", b"[]", 422, "dictionary"),
    ],
)
def test_wrong_requests_say_what_to_do(
    method: str, path: str, body: bytes, status: int, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        ask(method, path, body)
    assert refused.value.failure.http_status == status
