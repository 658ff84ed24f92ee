from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest

from nemo_gym.cli import prepare_data
from nemo_gym.testing.serving import LoopbackServers
from tests.datasets.hub_stand_in import HubStandIn
from tests.datasets.rows import read, row, write
from tests.launch.small_servers import write_server

GYM = """
agent:
  responses_api_agents:
    small:
      entrypoint: app.py
      datasets:
      - {name: few, type: example, jsonl_fpath: few.jsonl}
      - {name: many, type: train, jsonl_fpath: many.jsonl, num_repeats: 2, license: MIT,
         source: {type: huggingface, repo_id: me/many, artifact_fpath: train.jsonl}}
      - {name: held_out, type: validation, jsonl_fpath: held_out.jsonl, license: MIT, prepare_script: prepare.py}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_server(tmp_path / "responses_api_agents" / "small")
    (tmp_path / "gym.yaml").write_text(GYM)
    (tmp_path / "prepare.py").touch()
    write(tmp_path / "few.jsonl", row("a"), row("b"))
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        prepare_data.main(["+config_paths=[gym.yaml]", *arguments])
    assert ended.value.code is not None
    return int(ended.value.code)


def test_the_examples_of_a_configuration_are_checked(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("+mode=example_validation") == 0
    assert capsys.readouterr().out == f"example: {project / 'few.jsonl'}: 2 rows, for agent\n"
    assert not (project / "out").exists()


def test_a_file_that_is_not_there_is_named_with_the_way_to_have_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("+mode=train_preparation", "+output_dirpath=out") == 2
    assert "-> Fetch it from me/many by +should_download=true." in capsys.readouterr().err
    write(project / "many.jsonl", row("c"))
    assert run("+mode=train_preparation", "+output_dirpath=out") == 2
    assert "-> Create it: python prepare.py." in capsys.readouterr().err


def test_train_and_validation_are_merged_and_reported(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project / "many.jsonl", row("c"), row("d"), row("C "), row("c"))
    write(project / "held_out.jsonl", row("d", answer=1), row("e"))
    assert run("+mode=train_preparation", "+output_dirpath=out", "+json=true") == 3
    report = json.loads(capsys.readouterr().out)
    many = str(project / "many.jsonl")
    assert report["duplicates"] == [{"row": f"{many}:4", "first": f"{many}:1"}]
    assert report["leaks"] == [{"row": f"{many}:2", "first": f"{project / 'held_out.jsonl'}:1"}]
    assert report["written"] == {"out/train.jsonl": 8, "out/validation.jsonl": 2}
    assert run("+mode=train_preparation", "+output_dirpath=out", "+remove_duplicates=true") == 0
    asked = [
        one["responses_create_params"]["input"][0]["content"] for one in read(project / "out" / "train.jsonl")
    ]
    assert asked == ["c", "c", "C ", "C "], "twice each, as the dataset says"
    assert "written: out/train.jsonl (4 rows)" in capsys.readouterr().out


def test_malformed_rows_keep_everything_from_being_written(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project / "few.jsonl", row("a"), {"question": "b"})
    assert run("+mode=example_validation", "+output_dirpath=out") == 2
    assert f"{project / 'few.jsonl'}:2: `responses_create_params` is missing" in capsys.readouterr().err
    assert not (project / "out").exists()
    assert run("+mode=example_validation", "+output_dirpath=out", "+skip_invalid_rows=true") == 0
    assert ": 1 rows, 1 malformed, for agent" in capsys.readouterr().out
    assert len(read(project / "out" / "example.jsonl")) == 1


def test_missing_files_are_downloaded_on_request(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub", reason="needs the extra `hub`")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    hub = HubStandIn()
    hub.repositories["me/many"] = {"train.jsonl": orjson.dumps(row("fetched"))}
    write(project / "held_out.jsonl", row("e"))
    with LoopbackServers() as servers:
        monkeypatch.setenv("HF_ENDPOINT", servers.serve(hub.app))
        assert run("+mode=train_preparation", "+should_download=true", "+output_dirpath=out") == 0
    (first, second) = read(project / "out" / "train.jsonl")
    assert first == second
    assert first["responses_create_params"]["input"][0]["content"] == "fetched"
    assert (project / "many.jsonl").is_file()


def test_loose_files_need_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "loose.jsonl", row("a"))
    arguments = [
        "+input_jsonl_fpath=loose.jsonl",
        "+split=train",
        "+agent_name=someone",
        "+output_dirpath=out",
    ]
    with pytest.raises(SystemExit) as ended:
        prepare_data.main(arguments)
    assert ended.value.code == 0
    (one,) = read(tmp_path / "out" / "train.jsonl")
    assert one["agent_ref"]["name"] == "someone"


def test_rows_are_checked_by_the_schema_of_their_environment(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = project / "resources_servers" / "graded"
    write_server(folder)
    (folder / "task_data.py").write_text(
        "from pydantic import BaseModel\n\n\nclass TaskData(BaseModel):\n    grade: int\n"
    )
    graded = "graded:\n  resources_servers:\n    graded: {entrypoint: app.py, domain: other}\n"
    reference = "entrypoint: app.py\n      resources_server: {type: resources_servers, name: graded}"
    (project / "gym.yaml").write_text(graded + GYM.replace("entrypoint: app.py", reference, 1))
    assert run("+mode=example_validation") == 2
    assert "few.jsonl:1: `grade` Field required" in capsys.readouterr().err


LOCK = """
from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse, SimpleResourcesServer


class LockRequest(BaseVerifyRequest):
    expected_answer: str


class Lock(SimpleResourcesServer):
    async def verify(self, body: LockRequest) -> BaseVerifyResponse:
        raise NotImplementedError


if __name__ == "__main__":
    Lock.run_webserver()
"""
LOCKED = """
lock:
  resources_servers:
    lock: {entrypoint: app.py, domain: other}
agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: lock}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - {name: few, type: example, jsonl_fpath: few.jsonl}
"""


@pytest.fixture
def locked(project: Path) -> Path:
    folder = project / "resources_servers" / "lock"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(LOCK)
    (project / "gym.yaml").write_text(LOCKED)
    write(project / "few.jsonl", row("a", expected_answer="1"), row("b"), row("c", expected_anser="1"))
    return project


@pytest.mark.parametrize("source", ["+mode=example_validation", "+input_jsonl_fpath=few.jsonl"])
def test_rows_are_checked_by_the_models_of_their_environment_as_in_a_run(
    locked: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [source, *(["+agent_name=agent"] if "fpath" in source else []), "+output_dirpath=out"]
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert "2 of 3 rows malformed" in error
    assert "few.jsonl:2: `lock` needs `expected_answer`: Field required. Add" in error
    assert "few.jsonl:3: `lock` needs `expected_answer`: Field required. Rename `expected_anser`" in error
    assert run(*arguments, "+skip_invalid_rows=true", "+json=true") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["files"][0]["invalid_rows"], report["unchecked"]) == (2, {})
    assert len(read(locked / "out" / "example.jsonl")) == 1


def test_rows_whose_environment_is_not_known_are_said_to_be_unchecked(
    locked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("+input_jsonl_fpath=few.jsonl", "+agent_name=someone") == 0
    assert (
        "not checked by an environment: rows for someone: the configuration has no such agent"
        in capsys.readouterr().out
    )
