from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.rollouts.plan.task_rows import TaskShaper
from nemo_gym.rollouts.sessions.tasks import SubmittedTask, compute_digest, read_tasks
from tests.rollouts.doubles import AGENT, task_row

CONFIG = {AGENT: {"responses_api_agents": {"simple_agent": {"port": 1}}}}


def read(*lines: Any) -> list[SubmittedTask]:
    body = b"\n".join(line if isinstance(line, bytes) else orjson.dumps(line) for line in lines)
    return read_tasks(body, TaskShaper(), CONFIG)


def test_a_task_without_a_key_has_its_digest_whatever_the_order_of_its_members() -> None:
    row = task_row(1)
    (first, second, named) = read(
        {"row": row}, {"row": dict(reversed(row.items()))}, b"", {"row": row, "key": "a", "round": 2}
    )
    assert first.key == first.digest == second.key == compute_digest(row)
    assert (named.key, named.round, named.digest) == ("a", 2, first.digest)


def test_all_problems_are_told_together() -> None:
    with pytest.raises(InputError) as caught:
        read(
            b"{",
            [],
            {"row": {}},
            {"row": task_row(), "key": ""},
            {"row": task_row(), "round": -1, "repeat": 1},
            {"row": task_row(agent="simple_agnet")},
            {"row": task_row(1), "key": "a"},
            {"row": task_row(2), "key": "a"},
        )
    for told in (
        "line 1 is not JSON",
        "line 2 must be an object",
        "line 3: row.responses_create_params is missing",
        "line 4: `key` must be a text",
        "line 5: there is no field 'repeat'",
        "line 5: `round` must be a number",
        "the key 'a' stands for two tasks",
        "simple_agnet",
    ):
        assert told in str(caught.value)
