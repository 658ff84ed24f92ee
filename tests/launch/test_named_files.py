"""The files that the configuration of a server names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch._named_files import find_named_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (
        "project/resources_servers/mine/prompts/judge.txt",
        "project/shared/rubric.md",
        "project/results/calls.jsonl",
        "models/tiny/tokenizer.json",
        "models/tiny/chat_template.jinja",
        "models/tiny/model-00001.safetensors",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path / "project"


def names(project: Path, config: dict[str, Any]) -> list[str]:
    folder = project / "resources_servers" / "mine"
    instance = ServerInstance("mine", "resources_servers", "mine", folder, "app.py", config, None)
    found = find_named_files(instance, project, lambda path: "site-packages" in path.parts, 100)
    return sorted(path.name for path in found)


@pytest.mark.parametrize(
    "key", ["prompt", "system_prompt_file", "judge_prompt_template_fpath", "chat_template", "rubric", "gold"]
)
def test_a_named_file_counts_wherever_it_lies(project: Path, key: str) -> None:
    assert names(project, {key: "shared/rubric.md"}) == ["rubric.md"]
    assert names(project, {key: str(project / "shared/rubric.md")}) == ["rubric.md"]
    assert names(project, {"judge": {"prompts": [{key: "prompts/judge.txt"}]}}) == ["judge.txt"]


@pytest.mark.parametrize("key", ["tokenizer", "tokenizer_path", "tables_folder"])
def test_a_named_folder_counts_without_weights(project: Path, key: str) -> None:
    folder = project.parent / "models" / "tiny"
    assert names(project, {key: str(folder)}) == ["chat_template.jinja", "tokenizer.json"]


@pytest.mark.parametrize(
    "key",
    [
        "record_to",
        "log_path",
        "output_file",
        "cache_dir",
        "endpoint_file",
        "working_dir",
        "results",
        "save_to",
        "api_key_file",
        "judge_api_key_path",
        "datasets",
        "model_call_capture_dir",
    ],
)
def test_files_that_are_written_and_secrets_do_not_count(project: Path, key: str) -> None:
    assert names(project, {key: "shared/rubric.md"}) == []
    assert names(project, {key: str(project / "shared")}) == []


@pytest.mark.parametrize(
    "value",
    [
        "/usr/bin/env",
        "/tmp",
        "..",
        ".",
        "Qwen/Qwen3-8B",
        "v1.5",
        "http://a/b.txt",
        "a\n/b",
        "/" * 5000,
        "\0/x",
    ],
)
def test_other_texts_name_no_file(project: Path, value: str) -> None:
    assert names(project, {"model": value, "prompt": value}) == []
