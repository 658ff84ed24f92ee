"""`gym` as a process: help, wrong words, lists, and a closed pipe."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import click
import pytest

from nemo_gym.cli.short.line import run
from tests.e2e.gym_command import GYM, run_gym

LIMIT_S = 120


def gym(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_gym(folder, {**os.environ, "COLUMNS": "80", **variables}, *arguments)


@pytest.mark.parametrize("line", ["--help", "eval --help", "env --help", "eval run --help", "eval run -h"])
def test_help_fits_into_80_columns(tmp_path: Path, line: str) -> None:
    done = gym(tmp_path, *line.split())
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert done.stdout.startswith(f"Usage: gym {line.rpartition(' ')[0]}".rstrip())


def test_the_version_is_asked_for_as_of_any_program(tmp_path: Path) -> None:
    assert gym(tmp_path, "--version").stdout == gym(tmp_path, "version").stdout


def test_a_search_without_a_result_says_so(tmp_path: Path) -> None:
    assert "`gym list` shows everything" in gym(tmp_path, "search", "no_such_word").stdout


def test_without_arguments_the_help_is_printed(tmp_path: Path) -> None:
    assert gym(tmp_path).stdout == gym(tmp_path, "--help").stdout


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("evla run mcqa", "There is no verb 'evla'. Did you mean 'eval'?"),
        ("eval rum mcqa", "There is no verb 'rum'. Choose one of prepare, run,"),
        ("eval run mcqa --modle x", "Did you mean"),
        ("eval run mcqa --num-repeats five", "'five' is not a valid integer"),
        ("eval run mcqb", "Did you mean 'mcqa'?"),
        ("env start --benchmark mcqa", "There is no benchmark 'mcqa'."),
        ("env start mcqa --model-type vlm_model", "Did you mean 'vllm_model'"),
        ("eval run mcqa --model-api-key env:NOT_SET --url http://127.0.0.1:1/v1 -m x", "NOT_SET"),
        ("eval run mcqa --url http://127.0.0.1:1/v1", "policy_model_name"),
        ("list bechmarks", "benchmarks"),
        ("list environments mcqb", "Did you mean 'mcqa'?"),
        ("eval run --search-dir nowhere mcqa", "there is no folder"),
        ("eval failures", "Missing argument: FILE."),
        ("eval compare --markdown", "Missing argument: BEFORE AFTER."),
        ("completion", "Missing argument: SHELL."),
        ("eval compare before.jsonl", "Missing argument: AFTER."),
        ("eval profile a.jsonl b.jsonl", "Unexpected argument 'b.jsonl'."),
        ("env test", "Missing argument: NAME."),
        ("init mine", "Did you mean 'gym dataset init' or 'gym env init'?"),
        ("env export", "Did you mean 'gym eval export'?"),
        ("eval list", "Did you mean 'gym list'?"),
        ("list mcqa", "`gym search mcqa` finds names."),
        ("eval run mcqa --temperature hot", "'hot' is not a number."),
        ("eval run mcqa --temperature true", "'true' is not a number."),
        ("eval run mcqa --limit 1 --limit=2", "Option '--limit' is given 2 times. Give it once."),
        ("eval run mcqa -o a.jsonl --output b.jsonl", "Option '--output' / '-o' is given 2 times."),
    ],
)
def test_a_wrong_word_ends_with_2_and_a_hint_before_anything_starts(
    tmp_path: Path, line: str, hint: str
) -> None:
    done = gym(tmp_path, *line.split())
    assert done.returncode == 2
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_wrong_names_as_json(tmp_path: Path) -> None:
    done = gym(tmp_path, "env", "validate", "mcqb", "--json")
    assert done.returncode == 2
    (problem,) = json.loads(done.stdout)["problems"]
    assert problem["message"] == "There is no environment or benchmark 'mcqb'."


def test_a_piped_list_has_one_whole_line_for_each_entry(tmp_path: Path) -> None:
    lines = gym(tmp_path, "list", "models", COLUMNS="").stdout.splitlines()
    assert lines[0].startswith("models (")
    assert [line.split()[0] for line in lines[1:3]] == ["name", "azure_openai_model"]
    assert lines[2].endswith("a version in the query")


def test_a_search_finds_entries_with_all_words(tmp_path: Path) -> None:
    found = json.loads(gym(tmp_path, "search", "MATH", "verify", "--json").stdout)
    assert [entry["name"] for entry in found] == ["math_with_judge"]


def test_a_configuration_is_resolved_without_its_secrets(tmp_path: Path) -> None:
    line = "env resolve mcqa --url http://127.0.0.1:1/v1 -m x --model-api-key env:MY_KEY"
    done = gym(tmp_path, *line.split(), MY_KEY="canary-1")
    assert done.returncode == 0, done.stderr
    assert "resources_servers/mcqa/configs/mcqa.yaml" in done.stdout
    assert "policy_api_key: '****'" in done.stdout
    assert "canary" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "line", ["--help", "list", "eval run --help", "eval run +help=true", "help", "run --help"]
)
def test_a_closed_pipe_prints_no_traceback(tmp_path: Path, line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [*GYM, *line.split()],
            cwd=tmp_path,
            stdout=closed,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.stderr == b""


def test_errors_of_the_command_underneath_begin_with_the_typed_one(tmp_path: Path) -> None:
    done = gym(
        tmp_path, "eval", "run", "mcqa", "--split", "train", "--url", "http://127.0.0.1:9/v1", "--model", "m"
    )
    assert done.returncode == 2
    assert done.stderr.startswith("gym eval run: no dataset of type train")
    assert "ng_e2e_collect_rollouts:" not in done.stderr


def test_the_viewer_takes_the_path_of_a_run(tmp_path: Path) -> None:
    ended = gym(tmp_path, "view", "results/absent.jsonl")
    assert ended.returncode == 2
    assert "there is no run" in ended.stderr
    assert "absent.jsonl" in ended.stderr


def test_an_interrupt_while_the_line_is_read_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Group, "invoke", interrupted)
    with pytest.raises(SystemExit) as ended:
        run(["list"], program="gym")
    assert ended.value.code == 130
    assert capsys.readouterr().err.endswith("gym: interrupted\n")


def test_all_wrong_values_of_options_are_reported_together(tmp_path: Path) -> None:
    done = gym(tmp_path, "eval", "run", "mcqa", "-n", "four", "--temperature", "abc", "--limit", "x")
    assert done.returncode == 2
    for word in ("'four'", "'abc'", "'x'"):
        assert word in done.stderr


def test_all_unknown_options_are_reported_together(tmp_path: Path) -> None:
    done = gym(tmp_path, "eval", "run", "mcqa", "--temprature", "0.3", "--limt=4", "-z", "-n", "four")
    assert done.returncode == 2
    for words in ("'--temprature'. Did you mean '--temperature'?", "'--limt'. Did", "'-z'.", "'four'"):
        assert words in done.stderr


def test_a_file_after_two_dashes_is_no_option(tmp_path: Path) -> None:
    done = gym(tmp_path, "eval", "failures", "--", "-a.jsonl")
    assert "No such option" not in done.stderr
    assert "there is no run at -a.jsonl" in done.stderr


def test_a_misspelt_key_has_the_nearest_option(tmp_path: Path) -> None:
    done = gym(tmp_path, "eval", "run", "mcqa", "--url", "http://127.0.0.1:9/v1", "-m", "m", "+temprature=3")
    assert done.returncode == 2
    assert "Did you mean '--temperature'?" in done.stderr


def test_messages_name_the_flags_of_the_verb(tmp_path: Path) -> None:
    done = gym(tmp_path, "eval", "export", "a.jsonl")
    assert done.returncode == 2
    assert "Write --format <value>." in done.stderr
    assert "+" not in done.stderr


def test_the_help_of_a_verb_names_a_way_to_all_keys_without_another_command(tmp_path: Path) -> None:
    helped = gym(tmp_path, "eval", "export", "--help").stdout
    assert "+help=true lists all keys" in helped
    assert "ng_" not in helped + gym(tmp_path, "--help").stdout
    done = gym(tmp_path, "eval", "export", "+help=true")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gym eval export: all keys, written as +key=value.")
    assert "  min_reward  (number" in done.stdout


def test_a_verb_names_other_verbs_by_their_short_names(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    done = gym(tmp_path, "env", "status", XDG_RUNTIME_DIR=str(tmp_path / "runtime"))
    assert done.stdout == "no gym is running; start one with gym env start\n"
