"""Rows of others converted on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import convert_data


def test_the_rows_are_written_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "chat.json", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps([{"messages": [{"role": "user", "content": "hi"}]}]))
    with pytest.raises(SystemExit) as ended:
        convert_data.main([f"+input_jsonl_fpath={source}", f"+output_jsonl_fpath={output}"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{output}: 1 rows\n"
