from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from nemo_gym.cli.short.translation import (
    GymLine,
    Target,
    add_search_dirs,
    names_as,
    plain,
    split_arguments,
    translate_configured,
    translate_eval,
    translate_hub_dataset,
    translate_inspection,
    translate_list,
    translate_prepare,
    translate_scale,
    translate_search,
)
from tests.config.roots import write_root


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", "")
    return tmp_path


def line(*names: str, flags: tuple[str, ...] = (), extras: tuple[str, ...] = (), **values: Any) -> GymLine:
    return GymLine("command", values, flags, names, extras)


def test_overrides_are_told_from_names() -> None:
    arguments = ["mcqa", "+a=1", "./b", "c.d=2", "++e=[f, g]", "~h", "i/j"]
    assert split_arguments(arguments) == (["mcqa", "./b", "i/j"], ["+a=1", "c.d=2", "++e=[f, g]", "~h"])


def test_a_verb_that_needs_a_file_takes_it_as_argument_or_key() -> None:
    translate = names_as("path")
    for given in (line("a.jsonl"), line(extras=("+path=a.jsonl",))):
        assert len(translate(replace(given, usage="FILE")).arguments) == 1
    assert translate(replace(line(), usage="[FILE]...")).arguments == []
    with pytest.raises(click.UsageError, match="Missing argument: FILE"):
        translate(replace(line(), usage="FILE"))


def test_a_verb_without_names_refuses_one() -> None:
    assert plain(line(flags=("++a=1",), extras=("+b=2",))) == Target("command", ["++a=1", "+b=2"])
    with pytest.raises(click.UsageError, match="Unexpected argument 'x'"):
        plain(line("x"))


def test_only_the_hub_stores_datasets() -> None:
    assert translate_hub_dataset(line(flags=("++a=1",), storage="hf")).arguments == ["++a=1"]
    with pytest.raises(click.UsageError, match="only the Hugging Face hub"):
        translate_hub_dataset(line(storage="gitlab"))


def test_a_benchmark_is_prepared_without_a_model() -> None:
    assert translate_prepare(line("mcqa")).arguments == [
        '++config_paths=["resources_servers/mcqa/configs/mcqa.yaml"]'
    ]


def test_names_become_the_value_of_a_key() -> None:
    translate = names_as("entrypoint", "resources_servers/{}")
    assert translate(line("a")).arguments == ['++entrypoint="resources_servers/a"']
    assert translate(line("a", "agents/b")).arguments == ['++entrypoint=["resources_servers/a","agents/b"]']


def test_list_and_search() -> None:
    assert translate_list(line("resources_servers", "mcqa")).arguments == [
        '++kind="resources-servers"',
        '++name="mcqa"',
    ]
    assert translate_search(line("math", "judge")).arguments == ['++words=["math","judge"]']
    for refused, names in ((translate_list, "abc"), (translate_search, "")):
        with pytest.raises(click.UsageError):
            refused(line(*names))


def test_configuration_files_of_overrides_join_those_of_names() -> None:
    target = translate_configured(
        line("mcqa", extras=("+config_paths=[configs/demo.yaml]", "+a=1"), config=["b.yaml"])
    )
    files = '["resources_servers/mcqa/configs/mcqa.yaml","b.yaml","configs/demo.yaml"]'
    assert target.arguments[0] == f"++config_paths={files}"
    assert target.arguments[-1] == "+a=1"


def test_a_run_has_an_output_by_its_name() -> None:
    assert '++output_jsonl_fpath="results/mcqa.jsonl"' in translate_eval(line("mcqa")).arguments
    given = translate_eval(line("mcqa", extras=("+output_jsonl_fpath=a.jsonl",))).arguments
    assert [each for each in given if "output" in each] == ["+output_jsonl_fpath=a.jsonl"]
    Path("env.yaml").write_text("output_jsonl_fpath: b.jsonl\n")
    assert not [each for each in translate_eval(line("mcqa")).arguments if "output" in each]


def test_a_benchmark_is_run_with_its_own_split(here: Path) -> None:
    write_root(here, "benchmarks/gpqa")
    assert translate_eval(line(benchmark=["gpqa"])).arguments[-1] == "++split=benchmark"
    assert "++split=benchmark" not in translate_eval(line("gpqa", flags=("++split=train",))).arguments


def test_without_servers_the_running_gym_is_used() -> None:
    target = translate_eval(line(flags=("++agent_name=a",), extras=("+limit=1",), no_serve=True))
    assert target == Target("collect_rollouts", ["++agent_name=a", "+limit=1"])
    with pytest.raises(click.UsageError, match="--head names a running gym"):
        translate_eval(line("mcqa", head="127.0.0.1:11000"))
    with pytest.raises(click.UsageError, match="--model-url has no effect with --no-serve"):
        translate_eval(line(no_serve=True, model_url="http://x"))


def test_inspection_leaves_the_policy_open_unless_it_has_a_url() -> None:
    assert "vllm_model" not in translate_inspection(line("mcqa")).arguments[0]
    assert (
        "vllm_model"
        in translate_inspection(line("mcqa", flags=("++policy_base_url=http://x/v1",))).arguments[0]
    )


def test_folders_of_a_search_precede_those_of_the_variable(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", "/before")
    (here / "mine").mkdir()
    add_search_dirs(["mine"])
    assert os.environ["NEMO_GYM_EXTRA_ROOTS"] == f"{here / 'mine'}{os.pathsep}/before"
    with pytest.raises(click.UsageError, match="there is no folder"):
        add_search_dirs(["nothing"])


def test_servers_and_their_replicas_become_keys() -> None:
    given = line("my-env=8", flags=("++json=true",), extras=("model=2", "+run_token=x"))
    assert translate_scale(given).arguments == [
        "++servers.my-env=8",
        "++servers.model=2",
        "++json=true",
        "+run_token=x",
    ]
    assert translate_scale(line(extras=("+servers.env=3",))).arguments == ["+servers.env=3"]


@pytest.mark.parametrize("given", [line(), line("env"), line(extras=("env=many",)), line("env=")])
def test_servers_without_a_number_are_refused(given: GymLine) -> None:
    with pytest.raises(click.UsageError, match="NAME=REPLICAS, such as my_environment=8"):
        translate_scale(given)
