from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.cli import e2e_collect_rollouts
from nemo_gym.cli.e2e_collect_rollouts import choose_datasets
from nemo_gym.config.loading import GlobalConfig
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.records import RECORD_FIELD
from nemo_gym.tokens.segments import build_segments
from tests.cluster.placements import PLACEMENTS, keys_of
from tests.launch.small_servers import write_server

COMMAND = [sys.executable, "-c", "from nemo_gym.cli.e2e_collect_rollouts import main; main()"]
EXAMPLE = "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml"
GYM = """
env:
  resources_servers:
    small:
      entrypoint: app.py
      domain: other
      verified: false
      datasets:
      - {name: rows, type: validation, jsonl_fpath: rows.jsonl, num_repeats: 3}
agent:
  responses_api_agents:
    small:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: env}
      datasets:
      - {name: few, type: example, jsonl_fpath: few.jsonl}
      - {name: many, type: train, jsonl_fpath: many.jsonl, license: MIT, prepare_script: prepare.py}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    write_server(tmp_path / "resources_servers" / "small")
    write_server(tmp_path / "responses_api_agents" / "small")
    (tmp_path / "gym.yaml").write_text(GYM)
    (tmp_path / "prepare.py").touch()
    for name in ("rows", "few"):
        (tmp_path / f"{name}.jsonl").write_text('{"responses_create_params": {"input": "x"}}\n')
    return tmp_path


def loaded(*arguments: str) -> tuple[Any, GlobalConfig]:
    command = e2e_collect_rollouts.command()
    return command.load(["+config_paths=[gym.yaml]", "+output_jsonl_fpath=out.jsonl", *arguments])


def test_without_a_file_the_example_datasets_of_the_configuration_are_taken(project: Path) -> None:
    assert choose_datasets(*loaded()) == [DatasetFile(project / "few.jsonl", 1, "agent")]


@pytest.mark.parametrize(("placement", "code"), [("process", "invalid_config"), ("hosts", "no_hosts")])
def test_the_engines_of_nodes_are_not_asked_from_this_machine(
    project: Path, placement: str, code: str
) -> None:
    keys, config = e2e_collect_rollouts.command().load(
        [
            f"+config_paths=[{EXAMPLE},responses_api_models/vllm_model/configs/vllm_model.yaml]",
            "+output_jsonl_fpath=out.jsonl",
            *("+policy_base_url=http://127.0.0.1:9/v1", "+policy_api_key=none", "+policy_model_name=m"),
            f"+placement={placement}",
        ]
    )
    with pytest.raises(ConfigError) as caught:
        e2e_collect_rollouts.collect_end_to_end(keys, config, began=0.0, fork_server=None)
    assert caught.value.failure.code == code


def test_a_split_names_another_type_and_the_one_agent_of_the_environment_runs_it(project: Path) -> None:
    assert choose_datasets(*loaded("+split=validation")) == [DatasetFile(project / "rows.jsonl", 3, "agent")]


def test_the_command_line_overrides_the_declaration_of_a_dataset(project: Path) -> None:
    keys, config = loaded("+split=validation", "+num_repeats=5", "+prompt_config=p.yaml")
    assert choose_datasets(keys, config) == [DatasetFile(project / "rows.jsonl", 5, "agent", Path("p.yaml"))]


def test_named_files_stand_in_for_the_declared_ones(project: Path) -> None:
    keys, config = loaded("+input_jsonl_fpath=[a.jsonl,b.jsonl]", "+agent_name=agent", "+num_repeats=2")
    assert choose_datasets(keys, config) == [
        DatasetFile(Path("a.jsonl"), 2, "agent"),
        DatasetFile(Path("b.jsonl"), 2, "agent"),
    ]


def test_an_undeclared_type_is_an_error_with_the_declared_types(project: Path) -> None:
    with pytest.raises(ConfigError, match="no dataset of type benchmark is declared") as caught:
        choose_datasets(*loaded("+split=benchmark"))
    assert "+split=example or train or validation" in (caught.value.failure.remedy or "")


@pytest.mark.parametrize("rows", [(), ("+input_jsonl_fpath=rows.jsonl",)])
def test_an_unknown_agent_is_an_error_with_the_agents(project: Path, rows: tuple[str, ...]) -> None:
    for name, message in (("nosuch", "no agent is named `nosuch`"), ("env", "`env` is one of the resources")):
        keys, config = loaded(f"+agent_name={name}", *rows)
        with pytest.raises(ConfigError, match=message) as caught:
            e2e_collect_rollouts.collect_end_to_end(keys, config, began=0.0, fork_server=None)
        assert "The agents are: agent." in str(caught.value)


def test_a_dataset_that_has_yet_to_be_made_is_an_error(project: Path) -> None:
    with pytest.raises(ConfigError, match="the file of dataset many does not exist"):
        choose_datasets(*loaded("+split=train"))


def run_to_its_end(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "+head_server.port=0", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ,
    )


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_servers_start_rollouts_are_collected_and_servers_stop(project: Path, placement: str) -> None:
    example, model = (
        "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
        "responses_api_models/scripted_model/configs/scripted_model.yaml",
    )
    configs, output = f"+config_paths=[{example},{model}]", "+output_jsonl_fpath=out.jsonl"
    done = run_to_its_end(configs, output, "+json=true", *keys_of(placement))
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)
    rows = [json.loads(line) for line in (project / "out.jsonl").read_text().splitlines()]
    assert rows
    assert all("reward" in row for row in rows)
    assert "all 4 servers are ready" in done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("stopped in ")
    assert not (project / ".nemo_gym_global_config.yaml").exists()


@pytest.mark.parametrize("form", [None, "contract"])
def test_token_ids_are_packed_unless_the_configuration_has_a_form(project: Path, form: str | None) -> None:
    model = "policy_model.responses_api_models.scripted_model"
    keys = [f"++{model}.return_token_id_information=true", "+placement=inline", "+limit=1"]
    keys += [] if form is None else [f"++{model}.token_fields={form}"]
    configs = f"+config_paths=[{EXAMPLE},responses_api_models/scripted_model/configs/scripted_model.yaml]"
    done = run_to_its_end(configs, "+output_jsonl_fpath=out.jsonl", *keys)
    assert done.returncode == 0, done.stderr
    row = json.loads((project / "out.jsonl").read_text())
    items = [item for item in row["response"]["output"] if RECORD_FIELD in item]
    assert items
    assert all(("generation_token_ids" in item) == (form == "contract") for item in items)
    (segment,) = build_segments(read_calls(row))
    assert segment.sampled > 0


def test_a_server_that_does_not_start_ends_the_command_before_anything_is_collected(project: Path) -> None:
    (project / "resources_servers" / "small" / "app.py").write_text("import not_there")
    done = run_to_its_end("+config_paths=[gym.yaml]", "+output_jsonl_fpath=out.jsonl")
    assert done.returncode == 1
    assert "ng_e2e_collect_rollouts: ModuleNotFoundError: No module named 'not_there'" in done.stderr
    assert not (project / "out.jsonl").exists()


@pytest.mark.parametrize("more", [(), ("+dry_run=true",)], ids=["start", "dry run"])
def test_rows_that_their_environment_cannot_read_are_refused_before_a_server_starts(
    project: Path, more: tuple[str, ...]
) -> None:
    environment = "resources_servers/mcqa/configs/mcqa.yaml"
    configs = f"{environment},responses_api_models/scripted_model/configs/scripted_model.yaml"
    rows: list[dict[str, Any]] = [{"expected_answer": 7}, {}, {"responses_create_params": {}}]
    given = [{"responses_create_params": {"input": "x"}, **row} for row in rows]
    (project / "tasks.jsonl").write_text("\n".join(map(json.dumps, given)))
    done = run_to_its_end(
        f"+config_paths=[{configs}]",
        "+output_jsonl_fpath=out.jsonl",
        *("+input_jsonl_fpath=tasks.jsonl", "+agent_name=mcqa_simple_agent", *more),
    )
    assert done.returncode == 2
    for told in (
        "3 problems",
        "tasks.jsonl:1",
        "`expected_answer` is 7",
        "tasks.jsonl:2",
        "expected_answer: missing",
    ):
        assert told in done.stderr
    assert "tasks.jsonl:3: `responses_create_params.input` is missing" in done.stderr
    assert "ready" not in done.stderr


def test_a_dry_run_refuses_the_resume_that_a_start_refuses(project: Path) -> None:
    configs = ",".join(
        [EXAMPLE, "responses_api_models/scripted_model/configs/scripted_model.yaml"],
    )
    line = [f"+config_paths=[{configs}]", "+output_jsonl_fpath=out.jsonl", "+num_repeats=2"]
    assert run_to_its_end(*line).returncode == 0
    resumed, changed = [*line, "+resume_from_cache=true"], "+responses_create_params.temperature=0.3"
    assert run_to_its_end(*resumed, "+dry_run=true").returncode == 0
    started, tried = (run_to_its_end(*resumed, changed, *more) for more in ((), ("+dry_run=true",)))
    assert (started.returncode, tried.returncode) == (2, 2)
    assert "temperature: null -> 0.3" in tried.stderr
    assert tried.stderr == started.stderr  # so no server has started
    with (project / "out.jsonl").open("ab") as rows:
        fcntl.flock(rows, fcntl.LOCK_EX)
        started, tried = (run_to_its_end(*resumed, *more) for more in ((), ("+dry_run=true",)))
    assert (started.returncode, tried.returncode) == (2, 2)
    assert "another process is writing out.jsonl" in tried.stderr
    assert tried.stderr == started.stderr
