"""The rows of a file get one identity each, by one reading for all readers."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.numbering import RowIdentities, prompt_fingerprint, require_indices


def ask(question: str, **indices: Any) -> dict[str, Any]:
    return {**indices, "responses_create_params": {"input": question}, "reward": 1.0}


def indices(task: Any, repeat: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": repeat}


def identify(*rows: dict[str, Any]) -> list[RolloutId]:
    identities = RowIdentities()
    return [identities.identify(row, f"in.jsonl:{number}") for number, row in enumerate(rows, 1)]


def test_stated_indices_are_the_identity() -> None:
    assert identify(ask("a", **indices(3, 1)), ask("a", **indices(3, 0))) == [(3, 1), (3, 0)]


@pytest.mark.parametrize("absent", [{}, indices(None, None)])
def test_rows_of_one_prompt_are_the_repeats_of_a_task(absent: dict[str, Any]) -> None:
    rows = [ask(question, **absent) for question in "abab"]
    assert identify(*rows) == [(0, 0), (1, 0), (0, 1), (1, 1)]


def test_a_row_without_a_request_is_a_task_of_its_own() -> None:
    assert identify({"reward": 1.0}, ask("a"), {"reward": 1.0}, ask("a")) == [(0, 0), (1, 0), (2, 0), (1, 1)]


def test_one_index_is_kept_and_the_other_is_counted() -> None:
    assert identify(*(ask("a", _ng_task_index=task) for task in (4, 7, 4))) == [(4, 0), (7, 0), (4, 1)]
    assert identify(*(ask("a", _ng_rollout_index=repeat) for repeat in (1, 0))) == [(0, 1), (0, 0)]


@pytest.mark.parametrize("wrong", [True, False, 1.0, "1", [], {}, 1 << 63])
def test_an_index_of_another_kind_is_refused_with_its_place(wrong: object) -> None:
    for row in (ask("a", **indices(wrong, 0)), ask("a", **indices(0, wrong)), ask("a", _ng_task_index=wrong)):
        with pytest.raises(ConfigError, match=r"in\.jsonl:1: the row has `_ng_.* an index is an integer"):
            identify(row)
        with pytest.raises(ConfigError, match=r"some\.jsonl:9"):
            require_indices(row, "some.jsonl:9")


@pytest.mark.parametrize("stated_first", [True, False])
def test_a_file_that_numbers_only_some_rows_is_refused(stated_first: bool) -> None:
    rows = [ask("a", **indices(0, 0)), ask("b")]
    with pytest.raises(ConfigError, match=r"in\.jsonl:2: the row has .* unlike earlier rows"):
        identify(*(rows if stated_first else reversed(rows)))


def test_a_prompt_is_its_instructions_input_and_tools() -> None:
    plain = prompt_fingerprint(ask("a"))
    assert plain == prompt_fingerprint({"responses_create_params": {"input": "a", "tools": [], "seed": 1}})
    assert plain != prompt_fingerprint({"responses_create_params": {"input": "a", "instructions": "b"}})


def test_a_row_that_is_too_deep_to_compare_is_refused_with_its_place() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ConfigError, match=r"in\.jsonl:1: the row cannot be compared"):
        identify(ask(deep))
