from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.audit.gold_scripts import GoldScript, find_script, read_gold_scripts
from nemo_gym.failures import ConfigError
from tests.audit.planted_verifiers import make_row


def test_the_scripts_beside_the_rows_are_read(tmp_path: Path) -> None:
    (tmp_path / "example_gold.yaml").write_text(
        "- match: bread\n  turns:\n  - tool_calls: [{name: set, arguments: {m: 2}}, {name: stop}]\n  - text: Set.\n"
        "- match: kitchen\n  turns:\n  - text: Dark.\n"
    )
    scripts = read_gold_scripts(tmp_path / "example.jsonl")
    assert scripts[0] == GoldScript("bread", [("set", {"m": 2}), ("stop", {})], "Set.")
    assert find_script(scripts, make_row("The kitchen is dark.")) is scripts[1]
    assert find_script(scripts, make_row("The cellar?")) is None
    assert read_gold_scripts(tmp_path / "other.jsonl") == []


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_the_file_has_the_name_of_the_rows(name: str, tmp_path: Path) -> None:
    (tmp_path / "rows_gold.yaml").write_text("- match: bread\n  turns: [{text: Set.}]\n")
    (tmp_path / "rows.v2_gold.yaml").write_text("- match: oven\n  turns: [{text: Hot.}]\n")
    assert [each.match for each in read_gold_scripts(tmp_path / name)] == ["bread"]
    assert [each.match for each in read_gold_scripts(tmp_path / name.replace("rows", "rows.v2"))] == ["oven"]


def test_a_match_may_stand_in_any_message_as_in_the_engine_stub() -> None:
    script = GoldScript("task 7", [], "Set.")
    for messages in (
        [{"role": "system", "content": "This is task 7."}, {"role": "user", "content": "Begin."}],
        [
            {"role": "user", "content": "task 7"},
            {"role": "assistant", "content": "?"},
            {"role": "user", "content": "Go."},
        ],
    ):
        assert find_script([script], {"responses_create_params": {"input": messages}}) is script
    assert (
        find_script([script], {"responses_create_params": {"input": "x", "instructions": "task 7"}}) is script
    )


def test_a_scene_without_a_match_is_of_every_task_and_arguments_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "rows_gold.yaml").write_text(
        "- turns: [{tool_calls: [{name: f, arguments: '{\"a\": 1}'}]}]\n"
    )
    (script,) = read_gold_scripts(tmp_path / "rows.jsonl")
    assert script == GoldScript("", [("f", {"a": 1})], "")
    assert find_script([script], make_row("Anything?")) is script


@pytest.mark.parametrize(
    "text",
    [
        "- turns: []",
        "a: [",
        "- match: x\n  turns: 3",
        "- match: x\n  turns: [{text: 2024-03-03}]",
        "- match: 7\n  turns: [{text: x}]",
        "- match: x\n  turns: [{tool_calls: [{name: f, arguments: '{'}]}]",
    ],
)
def test_a_file_of_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows_gold.yaml").write_text(text)
    with pytest.raises(ConfigError, match="is not a list of scripts"):
        read_gold_scripts(tmp_path / "rows.jsonl")
