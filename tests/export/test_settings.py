"""The settings of an export, by their names in Python and by the keys of the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from nemo_gym.export.settings import ExportSettings


def test_one_input_is_a_list_of_one() -> None:
    one = ExportSettings.model_validate({"format": "sft", "input": "a.jsonl", "output": "b.jsonl"})
    assert one.inputs == [Path("a.jsonl")]
    several = ExportSettings(format="sft", inputs=[Path("a"), Path("b")], output=Path("c"))
    assert several.inputs == [Path("a"), Path("b")]


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="min_rewardd"):
        ExportSettings.model_validate({"format": "sft", "input": "a", "output": "b", "min_rewardd": 1})
