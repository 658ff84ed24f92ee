from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.audit.gold_scripts import GoldScript, find_script, read_gold_scripts
from nemo_gym.failures import ConfigError


def test_the_scripts_beside_the_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "example_gold.yaml").write_text(
        "- match: bread\n  turns:\n  - tool_calls: [{name: set, arguments: {m: 2}}, {name: stop}]\n  - text: Set.\n"
        "- match: kitchen\n  turns:\n  - text: Dark.\n"
    )
    scripts = read_gold_scripts(tmp_path / "example.jsonl")
    assert scripts[0] == GoldScript("bread", [("set", {"m": 2}), ("stop", {})], "Set.")
    assert find_script(scripts, "The kitchen is dark.") is scripts[1]
    assert find_script(scripts, "The cellar?") is None
    assert read_gold_scripts(tmp_path / "other.jsonl") == []


@pytest.mark.parametrize("text", ["- turns: []", "a: [", "- match: x\n  turns: 3"])
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows_gold.yaml").write_text(text)
    with pytest.raises(ConfigError, match="is not a list of scripts"):
        read_gold_scripts(tmp_path / "rows.jsonl")
