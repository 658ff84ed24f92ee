"""A prompt template is filled with the rows of a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli import materialize_prompts
from tests.datasets.rows import read, write


def test_prompts_are_materialized_by_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.yaml").write_text("user: 'Q: {question}'")
    write(tmp_path / "questions.jsonl", {"question": "a"})
    with pytest.raises(SystemExit) as ended:
        materialize_prompts.main(
            [
                "+input_jsonl_fpath=questions.jsonl",
                f"+prompt_config={tmp_path / 'prompt.yaml'}",
                "+output_jsonl_fpath=tasks.jsonl",
            ]
        )
    assert ended.value.code == 0
    assert capsys.readouterr().out == "tasks.jsonl: 1 rows\n"
    (filled,) = read(tmp_path / "tasks.jsonl")
    assert filled["responses_create_params"]["input"] == [{"role": "user", "content": "Q: a"}]
