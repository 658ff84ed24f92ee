from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from nemo_gym.engines.gateway.openings import Openings, RolloutRefusal, RolloutTerms


def test_two_processes_that_open_one_rollout_at_once_get_one_key(tmp_path: Path) -> None:
    first, second = Openings(tmp_path, "secret"), Openings(tmp_path, "secret")
    terms = RolloutTerms(rollout_id="r")
    keys = {openings.build_key(openings.open(terms)) for openings in (first, second, first)}
    assert len(keys) == 1
    assert [path.name for path in (tmp_path / "r").iterdir()] == ["opened.json"]


def test_a_rollout_of_another_run_is_not_taken_over(tmp_path: Path) -> None:
    key = Openings(tmp_path, "one")
    opening = key.open(RolloutTerms(rollout_id="r"))
    other = Openings(tmp_path, "two")
    with pytest.raises(RolloutRefusal, match="another run"):
        other.build_key(other.open(RolloutTerms(rollout_id="r")))
    assert other.find_by_key(key.build_key(opening)) is not None


def test_a_rollout_that_was_deleted_and_opened_again_has_another_key(tmp_path: Path) -> None:
    openings, elsewhere = Openings(tmp_path, "secret"), Openings(tmp_path, "secret")
    first = openings.open(RolloutTerms(rollout_id="r"))
    old = openings.build_key(first)
    assert elsewhere.find_by_key(old) is not None
    openings.delete(first)
    assert elsewhere.find_by_key(old) is None
    assert openings.build_key(openings.open(RolloutTerms(rollout_id="r"))) != old
    assert elsewhere.find_by_key(old) is None


@pytest.mark.parametrize("rollout_id", ["é", "a b", "a" * 201, ".a", "a/b", ""])
def test_an_id_that_no_later_request_could_name_is_refused(rollout_id: str) -> None:
    with pytest.raises(ValidationError, match="rollout_id"):
        RolloutTerms(rollout_id=rollout_id)


def test_the_ids_that_are_taken_can_be_named(tmp_path: Path) -> None:
    openings = Openings(tmp_path, "secret")
    for rollout_id in ("a" * 200, "task-1~2@x:y+z=.w", "_"):
        openings.open(RolloutTerms(rollout_id=rollout_id))
        assert openings.find(rollout_id) is not None
