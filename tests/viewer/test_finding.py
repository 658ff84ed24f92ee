"""Runs are found below folders by any of their files, and a followed folder shows runs that are made later."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from nemo_gym import clock
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.run_state import RunState
from nemo_gym.viewer.finding import FollowedRuns, find_runs
from tests.viewer.test_runs import ROW, make_run

FAILURE = b'{"_ng_task_index":0,"_ng_rollout_index":0,"_ng_failure_class":"engine:gone"}\n'
COUNTS = {"planned": 4, "completed": 0, "truncated": 0, "finished_before": 0, "failed": 4}


class Later(clock.Sources):
    """A clock that goes on by five seconds with each question."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 5
        return self.now


def test_runs_are_found_below_a_folder(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "out.jsonl", {"end": "complete"})
    make_run(tmp_path / "b" / "deep" / "foreign.jsonl", None)
    (tmp_path / "a" / "out_failures.jsonl").write_bytes(ROW)
    (tmp_path / "tasks.jsonl").write_bytes(b'{"responses_create_params":{}}\n')
    make_run(tmp_path / ".hidden" / "out.jsonl", {"end": "complete"})
    runs = find_runs([tmp_path, tmp_path / "a" / "out.jsonl"])
    assert sorted(run.files.rows for run in runs) == [
        tmp_path / "a" / "out.jsonl",
        tmp_path / "b" / "deep" / "foreign.jsonl",
    ]
    assert len({run.id for run in runs}) == 2


@pytest.mark.parametrize("name", ["empty", "absent.jsonl"])
def test_a_place_without_a_run_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="there is no run"):
        find_runs([tmp_path / name])


def test_a_run_in_which_every_rollout_failed_is_listed(tmp_path: Path) -> None:
    make_run(tmp_path / "good.jsonl", {"end": "complete"})
    make_run(tmp_path / "bad.jsonl", {"end": "partial", "counts": COUNTS})
    (tmp_path / "bad.jsonl").unlink()
    (tmp_path / "bad_failures.jsonl").write_bytes(FAILURE)
    (tmp_path / "alone_failures.jsonl").write_bytes(FAILURE)
    (tmp_path / "notes_failures.jsonl").write_bytes(b'{"text": "no run"}\n')
    found = {run.title: run.summary() for run in find_runs([tmp_path])}
    assert {title: each["state"] for title, each in found.items()} == {
        "good": RunState.COMPLETE,
        "bad": RunState.PARTIAL,
        "alone": RunState.UNKNOWN,
    }
    assert (found["bad"]["failures"], found["bad"]["rows"]) == (4, 0)
    assert found["bad"]["updated_at"] is not None


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_a_run_without_rows_or_failures_has_only_a_manifest(tmp_path: Path, ending: str) -> None:
    make_run(tmp_path / "new.jsonl", {"started_at": "now", "planned": 7})
    (tmp_path / "new.jsonl").unlink()
    if ending != ".jsonl":
        (tmp_path / f"new_failures{ending}").write_bytes(b"")
    (run,) = find_runs([tmp_path])
    assert (run.files.rows.name, run.summary()["planned"]) == (f"new{ending}", 7)


def test_runs_that_are_made_later_are_shown_and_ids_stay(tmp_path: Path) -> None:
    make_run(tmp_path / "one.jsonl", {"end": "complete"})
    with clock.replaced_by(Later()):
        followed = FollowedRuns(find_runs([tmp_path]), [tmp_path])
        (first,) = followed.list_runs()
        for number in range(20):
            make_run(tmp_path / "deep" / f"new{number}.jsonl", {"end": "complete"})
            os.utime(tmp_path / "deep" / f"new{number}.jsonl", (2e9 + number, 2e9 + number))
        shown = followed.list_runs()
        assert [run.title for run in shown[:2]] == ["deep/new19", "deep/new18"], "newest first"
        assert len({run.id for run in shown}) == len(shown) == 21
        assert shown[-1].id == first.id
        assert followed.find_run(shown[0].id) == shown[0]
        (tmp_path / "deep" / "new19.jsonl").unlink()
        (tmp_path / "deep" / "new19_run.json").unlink()
        assert len(followed.list_runs()) == 20
        assert followed.find_run("r99") is None


def test_a_file_that_was_named_is_shown_beside_a_followed_folder(tmp_path: Path) -> None:
    make_run(tmp_path / "a" / "one.jsonl", {"end": "complete"})
    make_run(tmp_path / "b" / "two.jsonl", {"end": "complete"})
    places = [tmp_path / "a", tmp_path / "b" / "two.jsonl"]
    with clock.replaced_by(Later()):
        followed = FollowedRuns(find_runs(places), places)
        make_run(tmp_path / "b" / "three.jsonl", {"end": "complete"})
        assert {run.title for run in followed.list_runs()} == {"one", "two.jsonl"}


def test_a_kept_summary_follows_the_files(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, {"end": "complete", "counts": {"completed": 1, "failed": 0}})
    followed = FollowedRuns(find_runs([tmp_path]))
    (before,) = followed.summarize()
    assert followed.summarize() == [before]
    make_run(rows, {"end": "partial", "counts": {"completed": 2, "failed": 1}})
    (after,) = followed.summarize()
    assert (before["rows"], after["rows"], after["state"]) == (1, 2, "partial")
    rows.with_name("out_aggregate_metrics.json").write_bytes(b"{torn")
    (damaged,) = followed.summarize()
    assert damaged["problems"]


def test_model_environment_sampling_and_tags_are_those_of_the_manifest(tmp_path: Path) -> None:
    rows = tmp_path / "out.jsonl"
    make_run(rows, None)
    identity = {
        "config": {"m": {"responses_api_models": {"vllm_model": {"model": "org/small"}}}},
        "responses_create_params": {"temperature": 0.5},
    }
    start = {"end": "complete", "settings": {"tags": ["nightly"]}}
    manifest = {"schema_version": 1, "identity": identity, "starts": [start]}
    rows.with_name("out_run.json").write_bytes(orjson.dumps(manifest))
    (run,) = find_runs([tmp_path])
    shown = run.summary()
    assert (shown["models"], shown["sampling"], shown["tags"]) == (
        ["org/small"],
        {"temperature": 0.5},
        ["nightly"],
    )
