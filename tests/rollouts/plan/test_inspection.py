"""The first pass over the datasets."""

from __future__ import annotations

import gzip
from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.inspection import inspect
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS
from nemo_gym.rows.identity import RolloutId
from tests.rollouts.doubles import task_row, write_dataset


def settings_of(*files: DatasetFile, limit: int | None = None) -> PlanSettings:
    return PlanSettings(files, limit=limit)


def test_all_malformed_rows_are_reported_together_with_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [
        orjson.dumps(task_row(0)),
        b"{broken",
        b"",
        b'{"agent_ref": {"name": "a"}}',
        orjson.dumps(task_row(1)),
    ]
    path.write_bytes(b"\n".join(lines))
    inspection = inspect(settings_of(DatasetFile(path)))
    assert (inspection.invalid, inspection.files[0].rows, inspection.rollouts) == (2, 4, 2)
    with pytest.raises(ConfigError) as caught:
        inspection.refuse_faults()
    message = caught.value.failure.message
    assert f"{path}:2:" in message
    assert f"{path}:4: `responses_create_params` is missing" in message
    assert "+skip_invalid_rows" in str(caught.value)


def test_a_mistake_of_many_rows_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"{}\n" * 900 + b"3\n" + b"{}\n")
    inspection = inspect(settings_of(DatasetFile(path, agent_name="a")))
    assert (inspection.invalid, inspection.faults.count) == (902, 902)
    assert inspection.faults.shown == [
        f"{path}:1: `responses_create_params` is missing (lines 1-900,902)",
        f"{path}:901: must be a JSON object, not a number",
    ]


def test_a_report_of_many_faults_is_capped_and_says_how_many_more_there_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = (f'{{"responses_create_params":{{"input":[{"{}," * place}3]}}}}\n' for place in range(1000))
    path.write_text("".join(rows))
    inspection = inspect(settings_of(DatasetFile(path, agent_name="a")))
    assert inspection.invalid == 1000
    with pytest.raises(ConfigError) as caught:
        inspection.refuse_faults()
    assert caught.value.failure.message.count("\n  ") == SHOWN_FAULTS + 1
    assert "… and 950 more" in caught.value.failure.message


def test_sound_rows_are_not_refused(tmp_path: Path) -> None:
    inspect(settings_of(DatasetFile(write_dataset(tmp_path / "rows.jsonl", 3)))).refuse_faults()


def test_tasks_and_rollouts_are_counted_by_agent_over_all_files(tmp_path: Path) -> None:
    first = DatasetFile(write_dataset(tmp_path / "a.jsonl", 3), num_repeats=2)
    second = DatasetFile(write_dataset(tmp_path / "b.jsonl", 4, agent=None), agent_name="other")
    inspection = inspect(settings_of(first, second))
    assert inspection.agents == {"simple_agent": 3, "other": 4}
    assert inspection.rollouts_of == {"simple_agent": 6, "other": 4}
    assert inspection.numbers == [range(3), range(3, 7)]


def test_an_agent_name_that_no_row_takes_is_spoken_of(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "rows.jsonl", 2)
    (note,) = inspect(settings_of(DatasetFile(path, agent_name="other"))).notes
    assert "+agent_name=other has no effect" in note
    assert inspect(settings_of(DatasetFile(path, agent_name="simple_agent"))).notes == []


def test_keys_of_the_gym_in_a_dataset_are_spoken_of(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(orjson.dumps(task_row(0, _ng_outcome="completed")))
    assert inspect(settings_of(DatasetFile(path))).notes == [
        "1 rows have reserved keys (`_ng_…`), which were removed"
    ]


def test_rows_beyond_the_limit_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(orjson.dumps(task_row()) + b"\n{broken\n")
    inspection = inspect(settings_of(DatasetFile(path), limit=1))
    assert (inspection.invalid, inspection.rollouts) == (0, 1)


def test_the_hash_is_of_the_rows_not_of_their_packing(tmp_path: Path) -> None:
    plain = write_dataset(tmp_path / "a.jsonl", 3)
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\n\n" + plain.read_bytes().rstrip()))
    other = write_dataset(tmp_path / "c.jsonl", 4)
    digests = [inspect(settings_of(DatasetFile(path))).files[0].sha256 for path in (plain, packed, other)]
    assert digests[0] == digests[1] != digests[2]


def test_a_dataset_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n\n")
    with pytest.raises(ConfigError, match="no rows in"):
        inspect(settings_of(DatasetFile(path)))


def test_the_rollouts_of_rows_with_several_agents_are_counted_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(orjson.dumps(task_row(0)) + b"\n" + orjson.dumps(task_row(1, agent="other")))
    routing = Routing(fan_out={"other": ["a", "b"]}, num_repeats={"a": 3, "_default": 1})
    inspection = inspect(PlanSettings((DatasetFile(path),), routing=routing))
    assert inspection.rollouts == 5
    assert dict(inspection.rollouts_of) == {"simple_agent": 1, "a": 3, "b": 1}
    is_planned = inspection.membership()
    assert is_planned(RolloutId(0, 0))
    assert is_planned(RolloutId(1, 4))
    assert not is_planned(RolloutId(0, 1))
    assert not is_planned(RolloutId(2, 0))


def test_a_row_without_a_number_of_repeats_is_malformed(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "rows.jsonl", 1)
    inspection = inspect(PlanSettings((DatasetFile(path),), routing=Routing(num_repeats={"other": 2})))
    assert "`simple_agent` is not a key of +num_repeats" in inspection.faults.shown[0]


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ("{{question}}", "uses no field"),
        ("{n}. {{question}}", "rows have a field `question`"),
        ("{n}. {question} in \\boxed{}", "is not a field name"),
    ],
)
def test_a_template_that_cannot_be_meant_is_one_problem(tmp_path: Path, user: str, problem: str) -> None:
    path, template = tmp_path / "rows.jsonl", tmp_path / "prompt.yaml"
    path.write_text('{"question": "Why?", "n": 1}\n' * 60)
    template.write_text(f"user: '{user}'")
    with pytest.raises(ConfigError, match=problem) as caught:
        inspect(settings_of(DatasetFile(path, agent_name="a", prompt_config=template)))
    assert "+skip_invalid_rows" not in str(caught.value)
    assert "{" in str(caught.value.failure.remedy)


def test_rows_with_an_input_and_a_template_are_told_by_their_lines(tmp_path: Path) -> None:
    path, template = tmp_path / "rows.jsonl", tmp_path / "prompt.yaml"
    path.write_text('{"question": "Why?", "responses_create_params": {"input": "x"}}\n' * 60)
    template.write_text("user: '{question}'")
    inspection = inspect(settings_of(DatasetFile(path, agent_name="a", prompt_config=template)))
    (shown,) = inspection.faults.shown
    assert shown.startswith(
        f"{path}:1: `responses_create_params.input` is present, and {template} would replace it"
    )


def test_rows_with_a_number_of_repeats_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"responses_create_params": {"input": name}, "num_repeats": 4} for name in "xyz"]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (note,) = inspect(settings_of(DatasetFile(path, agent_name="a"))).notes
    assert note.startswith("3 rows have `num_repeats`, which has no effect there")
