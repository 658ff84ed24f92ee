"""No command overwrites what it reads, whatever name the output is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.cli import (
    aggregate_rollouts,
    collect_rollouts,
    e2e_collect_rollouts,
    export,
    materialize_prompts,
    prepare_data,
    reverify,
    reward_profile,
)
from nemo_gym.cli.short.line import run as gym
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import scored_row, store

RUN = "+input_jsonl_fpath=run.jsonl"
CONFIG = "+config_paths=[gym.yaml]"
COMMANDS = {
    "collect": (collect_rollouts.main, [RUN, "+overwrite=true"], "+output_jsonl_fpath"),
    "e2e": (
        e2e_collect_rollouts.main,
        [RUN, CONFIG, "+agent_name=a", "+overwrite=true"],
        "+output_jsonl_fpath",
    ),
    "reverify": (reverify.main, [RUN, CONFIG, "+overwrite=true"], "+output_jsonl_fpath"),
    "aggregate": (aggregate_rollouts.main, [RUN, "+overwrite=true"], "+output_jsonl_fpath"),
    "profile": (reward_profile.main, [RUN], "+output_jsonl_fpath"),
    "prompts": (materialize_prompts.main, [RUN, "+prompt_config=prompt.yaml"], "+output_jsonl_fpath"),
    "export": (export.main, ["+format=sft", "+input=run.jsonl", "+overwrite=true"], "+output"),
    "prepare": (prepare_data.main, ["+input_jsonl_fpath=train.jsonl", "+split=train"], "+output_dirpath"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("output", ["run.jsonl", "soft.jsonl", "hard.jsonl", "folder/run.jsonl"])
def test_an_output_that_is_the_input_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = store(tmp_path / "run.jsonl", [scored_row(0, agent="a")])
    (tmp_path / "soft.jsonl").symlink_to("run.jsonl")
    (tmp_path / "hard.jsonl").hardlink_to(run)
    (tmp_path / "train.jsonl").symlink_to("run.jsonl")
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "prompt.yaml").write_text("user: '{question}'")
    (tmp_path / "gym.yaml").symlink_to(PARENT_DIR / "resources_servers/mcqa/configs/resources_only.yaml")
    before = run.read_bytes()
    main, arguments, key = COMMANDS[name]
    target = output if name != "prepare" else "." if "/" not in output else "folder"
    with pytest.raises(SystemExit) as caught:
        main([*arguments, f"{key}={target}"])
    assert caught.value.code == 2
    assert "would overwrite its input" in capfd.readouterr().err
    assert run.read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "eval report small.jsonl",
        "view small.jsonl --export page.html",
        "eval tasks small.jsonl large.jsonl",
        "eval plan small.jsonl",
        "eval plan --tasks 4 -n 3 --difference 0.02",
        "eval rank small.jsonl large.jsonl",
        "eval compare small.jsonl large.jsonl",
        "eval profile small.jsonl",
        "dataset validate tasks --no-run",
        "list",
    ],
)
def test_a_terminal_of_80_columns_is_not_exceeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    store_models(tmp_path, {"small": 0.3, "large": 0.9}, tasks=6, repeats=2)
    with pytest.raises(SystemExit):
        gym(["dataset", "init", "tasks/count"], "gym")
    with pytest.raises(SystemExit) as caught:
        gym(line.split(), "gym")
    assert caught.value.code == 0
    assert not [each for each in "".join(capfd.readouterr()).splitlines() if len(each) > 80]
