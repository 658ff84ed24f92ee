"""A run's file is enough to score it again or to profile it: environments and outputs follow from the run."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from nemo_gym.cli.short.stored_runs import translate_profile, translate_reverify
from nemo_gym.cli.short.translation import GymLine


def line(*names: str, flags: tuple[str, ...] = (), **values: object) -> GymLine:
    return GymLine("reverify", values, flags, names, (), "[FILE] [NAME]...")


def write_run(folder: Path, *environments: str) -> Path:
    config = {
        **{name: {"resources_servers": {name: {"entrypoint": "app.py"}}} for name in environments},
        "policy_model": {"responses_api_models": {"vllm_model": {"model": "m"}}},
    }
    manifest = {"schema_version": 1, "identity": {"config": config}, "config_hash": "", "starts": []}
    (folder / "out_run.json").write_text(json.dumps(manifest))
    rows = folder / "out.jsonl"
    rows.write_text("")
    return rows


def test_the_environments_are_those_of_the_manifest(tmp_path: Path) -> None:
    rows = write_run(tmp_path, "mcqa", "string_match")
    arguments = translate_reverify(line(str(rows), model_type=None)).arguments
    assert f'++input_jsonl_fpath="{rows}"' in arguments
    assert f'++output_jsonl_fpath="{tmp_path / "out_reverified.jsonl"}"' in arguments
    (configs,) = [each for each in arguments if "config_paths" in each]
    assert "mcqa.yaml" in configs
    assert "string_match.yaml" in configs


def test_a_name_and_an_output_of_the_user_count(tmp_path: Path) -> None:
    rows = write_run(tmp_path, "mcqa")
    given = line(str(rows), "string_match", flags=('++output_jsonl_fpath="again.jsonl"',))
    arguments = translate_reverify(given).arguments
    assert [each for each in arguments if each.startswith("++output")] == [
        '++output_jsonl_fpath="again.jsonl"'
    ]
    (configs,) = [each for each in arguments if "config_paths" in each]
    assert "mcqa" not in configs


def test_two_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match=r"b\.jsonl"):
        translate_reverify(line("a.jsonl", "b.jsonl"))


def test_a_profile_is_written_beside_the_run() -> None:
    arguments = translate_profile(
        GymLine("reward_profile", {}, (), ("runs/a.jsonl.gz",), (), "FILE")
    ).arguments
    assert arguments == [
        '++input_jsonl_fpath="runs/a.jsonl.gz"',
        '++output_jsonl_fpath="runs/a_profile.jsonl"',
    ]
