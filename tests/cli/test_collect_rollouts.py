"""`ng_collect_rollouts` against a small gym on loopback."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from nemo_gym.cli.collect_rollouts import COMMAND, collect_rollouts
from nemo_gym.launch import observation
from nemo_gym.launch.records import GymRecord, Registry, RunRecord, write_discovery
from nemo_gym.rollouts.lookback.forks import fork
from nemo_gym.rollouts.lookback.reverify import reverify
from nemo_gym.rollouts.plan import inspection
from nemo_gym.rollouts.plan.dataset import Line, read_lines
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.tracking.tracked import collect_tracked


class SmallGym:
    """An agent that scores odd answers, and fails if the row requests it; served from a thread."""

    def __init__(self) -> None:
        app = FastAPI()
        app.post("/run")(self.run)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    @property
    def config(self) -> dict[str, Any]:
        host, port = self._socket.getsockname()
        return {"odd_agent": {"responses_api_agents": {"simple": {"host": host, "port": port}}}}

    async def run(self, request: Request) -> Any:
        row = await request.json()
        if row.get("fails"):
            return Response(b"it was asked to", 422)
        return {**row, "response": {"output": []}, "reward": row["answer"] % 2}

    def _serve(self) -> None:
        asyncio.run(self._server.serve([self._socket]))

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a running gym and a dataset of five rows."""
    monkeypatch.chdir(tmp_path)
    gym = SmallGym()
    write_discovery(tmp_path, gym.config, RunRecord(1, "token", "now", "http://127.0.0.1:1"))
    write_rows(tmp_path / "tasks.jsonl", [{} for _ in range(5)])
    yield tmp_path
    gym.stop()


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    whole = [
        {"responses_create_params": {"input": "x"}, "answer": number, **row}
        for number, row in enumerate(rows)
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in whole))


def command(*arguments: str) -> int:
    given = [
        "+input_jsonl_fpath=tasks.jsonl",
        "+output_jsonl_fpath=results/out.jsonl",
        "+agent_name=odd_agent",
    ]
    return COMMAND.run([*given, *arguments], collect_rollouts)


def test_a_dataset_is_collected_and_summarized_in_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("+num_repeats=2", "+responses_create_params.temperature=0.5") == 0
    rows = [orjson.loads(line) for line in (folder / "results/out.jsonl").read_bytes().splitlines()]
    assert len(rows) == 10
    assert {row["responses_create_params"]["temperature"] for row in rows} == {0.5}
    captured = capsys.readouterr()
    assert "odd_agent" in captured.out
    assert "0.400" in captured.out
    assert "/10 rollouts" in captured.err


@pytest.mark.parametrize("run", [collect, collect_tracked, reverify, fork])
def test_every_kind_of_run_can_be_stopped_shown_and_controlled(run: Callable[..., Any]) -> None:
    given = inspect.signature(run).parameters
    assert {"stop", "display", "serve"} <= {
        name for name, each in given.items() if each.kind is each.KEYWORD_ONLY
    }


def test_stdout_has_only_the_json_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("+json=true", "+limit=3") == 0
    summary = orjson.loads(capsys.readouterr().out)
    assert (summary["end"], summary["exit_code"], summary["counts"]["completed"]) == ("complete", 0, 3)
    assert summary["files"]["rows"] == "results/out.jsonl"


def test_a_rollout_that_fails_makes_the_run_partial(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(folder / "tasks.jsonl", [{}, {"fails": True}, {}])
    assert command() == 3
    assert "agent:http_422" in capsys.readouterr().out
    (line,) = (folder / "results/out_failures.jsonl").read_bytes().splitlines()
    assert "it was asked to" in orjson.loads(line)["_ng_failure"]["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("has_gym", [True, False])
def test_a_signal_ends_the_reading_of_rows_at_once(
    folder: Path, number: signal.Signals, has_gym: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_gym:
        for file in folder.glob("*.json"):
            file.unlink()
        monkeypatch.setattr(observation, "describe_running_gyms", none_runs)
    read = 0

    def read_and_signal(path: Path) -> Iterator[Line]:
        nonlocal read
        for line in read_lines(path):
            read += 1
            if read == 2:
                os.kill(os.getpid(), number)
            yield line

    monkeypatch.setattr(inspection, "read_lines", read_and_signal)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        assert command() == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    assert read == 2
    assert not (folder / "results").exists()


async def none_runs() -> str:
    return ""


def test_a_second_run_needs_resume_or_overwrite(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command() == 0
    assert command() == 2
    assert "+resume_from_cache=true" in capsys.readouterr().err
    assert command("+resume_from_cache=true") == 0
    assert command("+overwrite=true") == 0
    assert (folder / "results/out.1.jsonl").exists()
    assert command("+overwrite=true", "+resume_from_cache=true") == 2


@pytest.mark.parametrize("key", ["add_tasks", "mark_new_code"])
def test_permissions_for_a_resume_need_one(
    folder: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(f"+{key}=true") == 2
    assert command(f"+{key}=true", "+overwrite=true") == 2
    assert f"+{key}=true is about an earlier run" in capsys.readouterr().err
    assert not (folder / "results").exists()
    assert command(f"+{key}=true", "+resume_from_cache=true") == 0


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("++agent_name=odd_agnet", "odd_agent"),
        ("++input_jsonl_fpath=missing.jsonl", "missing.jsonl does not exist"),
        ("++output_jsonl_fpath=results", "does not end in .jsonl"),
        ("+num_repeat=3", "num_repeats"),
        ("+num_repeats=0", "num_repeats"),
        ("+prompt_config=missing.yaml", "missing.yaml"),
        ("+collector_processes=4", "merge the outputs with ng_aggregate_rollouts. A collector"),
    ],
)
def test_wrong_usage_is_exit_code_2_and_leaves_no_output(
    folder: Path, capsys: pytest.CaptureFixture[str], argument: str, complaint: str
) -> None:
    assert command(argument) == 2
    assert complaint in capsys.readouterr().err
    assert not (folder / "results/out.jsonl").exists()


def test_malformed_rows_are_listed_and_can_be_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / "tasks.jsonl").open("ab") as file:
        file.write(b'{"half": \n{"responses_create_params": {"input": 5}}\n')
    assert command() == 2
    error = capsys.readouterr().err
    assert "tasks.jsonl:6:" in error
    assert "tasks.jsonl:7: `responses_create_params.input`" in error
    assert command("+skip_invalid_rows=true") == 0
    assert "2 malformed rows were skipped" in capsys.readouterr().out


def test_several_datasets_are_one_run(folder: Path) -> None:
    write_rows(folder / "more.jsonl", [{}, {}])
    assert command("++input_jsonl_fpath=[tasks.jsonl,more.jsonl]") == 0
    assert (folder / "results/out.jsonl").read_bytes().count(b"\n") == 7


def test_without_a_gym_the_error_has_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("+head_server.host=127.0.0.1", "+head_server.port=9") == 2
    assert "Start the servers with gym env start" in capsys.readouterr().err


def test_a_gym_of_another_folder_is_named_and_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runtime, elsewhere = tmp_path / "runtime", tmp_path / "elsewhere"
    for each in (runtime, elsewhere):
        each.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    run = RunRecord(os.getpid(), "t", "now", "http://127.0.0.1:11000")
    Registry().write(GymRecord(run, str(folder), ()))
    write_rows(elsewhere / "tasks.jsonl", [{}])
    monkeypatch.chdir(elsewhere)
    assert command() == 2
    printed = capsys.readouterr().err
    assert f"no gym runs in this folder ({elsewhere})" in printed
    assert f"the gym of pid {os.getpid()} in {folder} listens at http://127.0.0.1:11000" in printed
    assert "+head_server.port=PORT" in printed


def test_help_names_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMAND.run(["--help"], collect_rollouts) == 0
    text = capsys.readouterr().out
    for key in (
        "input_jsonl_fpath",
        "num_samples_in_parallel",
        "resume_from_cache",
        "max_failed_fraction",
        "json",
    ):
        assert key in text
