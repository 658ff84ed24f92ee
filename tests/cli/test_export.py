from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli.export import COMMAND, ExportKeys, main
from nemo_gym.export.formats import NAMES
from tests.export.rows import read, row, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rollouts.jsonl", [row(0, n, float(n)) for n in range(3)])
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    captured = capsys.readouterr()
    assert isinstance(raised.value.code, int)
    return raised.value.code, captured.out, captured.err


def test_rows_are_written_and_every_rollout_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(
        capsys, "+format=sft", "+input=rollouts.jsonl", "+output=data/sft.jsonl.zst", "+min_reward=1"
    )
    assert code == 0
    assert len(read(folder / "data" / "sft.jsonl.zst")) == 2
    assert "2 of 3 rollouts exported" in printed
    assert "reward is outside +min_reward" in printed
    assert "rollouts.jsonl:1" in printed


def test_options_splits_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(
        capsys,
        "+format=dpo",
        "+input=[rollouts.jsonl]",
        "+output=pairs.jsonl",
        "+options.pairs=all",
        "+options.margin=1",
        "+splits={train:0.5,test:0.5}",
        "+json=true",
    )
    assert code == 0
    report = json.loads(printed)
    assert sum(report["rows"].values()) == 3
    assert {Path(path).name for path in report["rows"]} == {"pairs_train.jsonl", "pairs_test.jsonl"}


def test_an_empty_export_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "+format=grpo", "+input=rollouts.jsonl", "+output=out.jsonl")
    assert code == 3
    assert "no model call has token ids" in printed


def test_a_wrong_format_exits_2_with_the_right_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run(capsys, "+format=alpaca", "+input=rollouts.jsonl", "+output=out.jsonl")
    assert code == 2
    assert all(name in errors for name in NAMES)


def test_the_help_names_every_format() -> None:
    described = ExportKeys.model_fields["format"].description or ""
    assert all(name in described for name in NAMES)
    assert COMMAND.name in COMMAND.help()
