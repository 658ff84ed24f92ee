"""`+openenv_port`: the part of a configuration that starts, the tasks, and mistakes."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nemo_gym.cli._openenv import UNUSED_URL, find_environment, list_needed, prepare_openenv, read_tasks
from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.failures import ConfigError
from tests.sources.openenv.environments import build_row

SINGLE = "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml"
VLLM = "responses_api_models/vllm_model/configs/vllm_model.yaml"
POLICY = ("++policy_base_url=" + UNUSED_URL, "++policy_model_name=none", "++policy_api_key=none")
JUDGED = "resources_servers/equivalence_llm_judge/configs/equivalence_llm_judge.yaml"


def load_config(*files: str) -> GlobalConfig:
    return load([f"config_paths=[{','.join((*files, VLLM))}]", *POLICY])


def build_keys(**keys: Any) -> Any:
    return SimpleNamespace(**{"openenv_port": 0, "input_jsonl_fpath": None, **keys})


def test_the_agents_and_their_policy_do_not_start() -> None:
    config = load_config(SINGLE)
    assert len(config.servers) > 2
    kept, _ = prepare_openenv(build_keys(), config, lambda line: None)
    assert [server.name for server in kept.servers] == ["example_single_tool_call"]


def test_the_models_that_an_environment_calls_do() -> None:
    config = load_config(JUDGED)
    environment = find_environment(config)
    needed = set(list_needed(environment.name, config))
    assert needed > {environment.name}
    assert not any(
        server.kind == "responses_api_agents" for server in config.servers if server.name in needed
    )


def test_a_model_without_a_url_is_named(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(build_row("x")))
    with pytest.raises(
        ConfigError, match="`equivalence_llm_judge` calls the model server `policy_model`"
    ) as told:
        prepare_openenv(build_keys(input_jsonl_fpath=str(rows)), load_config(JUDGED), lambda line: None)
    assert "--url" in (told.value.failure.remedy or "")


def test_declared_datasets_are_splits_by_their_type() -> None:
    tasks = read_tasks([], load_config(SINGLE))
    assert {split: len(rows) for split, rows in tasks.rows.items()} == {"example": 5}


def test_files_are_splits_by_their_names(tmp_path: Path) -> None:
    for name, count in (("train", 2), ("hard.v2", 1)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join([json.dumps(build_row("x"))] * count))
    tasks = read_tasks([str(tmp_path / "train.jsonl"), str(tmp_path / "hard.v2.jsonl")], load_config(SINGLE))
    assert {split: len(rows) for split, rows in tasks.rows.items()} == {"train": 2, "hard": 1}


def test_two_environments_and_none_are_refused() -> None:
    other = "resources_servers/example_multi_step/configs/example_multi_step.yaml"
    with pytest.raises(ConfigError, match="has example_single_tool_call, example_multi_step"):
        find_environment(load_config(SINGLE, other))
    with pytest.raises(ConfigError, match="has none"):
        find_environment(load_config())


def test_a_taken_port_is_told_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=str(port)):
            prepare_openenv(build_keys(openenv_port=port), load_config(SINGLE), lambda line: None)
