from __future__ import annotations

from typing import Any

import orjson

from nemo_gym.datasets._duplicates import prompt_digest, row_digest
from nemo_gym.rollouts.plan.task_rows import Task
from nemo_gym.rows.forms import TaskRow


def task(asked: Any, tools: Any = None, **fields: Any) -> Task:
    row = {"responses_create_params": {"input": asked, "tools": tools}, **fields}
    return Task("agent", TaskRow(row), orjson.dumps(row))


def message(text: str, *parts: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "input_text", "text": text}, *parts] if parts else text}]


def test_a_text_and_a_message_ask_the_same_spaces_and_case_aside() -> None:
    assert prompt_digest(task("What is this?")) == prompt_digest(task(message(" what  is\nthis? ")))
    assert prompt_digest(task("What is this?")) != prompt_digest(task("What was this?"))


def test_roles_images_and_tools_are_part_of_the_prompt() -> None:
    image = {"type": "input_image", "image_url": "a"}
    other = {"type": "input_image", "image_url": "b"}
    digests = [
        prompt_digest(task(message("x"))),
        prompt_digest(task([{"role": "system", "content": "x"}])),
        prompt_digest(task(message("x", image))),
        prompt_digest(task(message("x", other))),
        prompt_digest(task(message("x"), [{"name": "look"}])),
    ]
    assert len(set(digests)) == len(digests)


def test_a_row_is_the_same_whatever_its_ids_and_the_order_of_its_keys() -> None:
    one = task("x", answer=1, id=1, uuid="a", agent_ref={"name": "a"}, _ng_task_index=4)
    row = {"answer": 1, **task("x", id=2).row}
    assert row_digest(one) == row_digest(Task("agent", TaskRow(row), b""))
    assert row_digest(one) != row_digest(task("x", answer=2))
    assert row_digest(one) != row_digest(Task("another agent", TaskRow(row), b""))
