"""Gold, no-op and wrong solutions, rows of several benchmarks, and rows that cannot be graded."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.testing import run_environment
from resources_servers.code_gen.app import CompCodingResourcesServer, scores_of
from resources_servers.code_gen.tasks import CheckedTask, FunctionTask, ProgramTask, read_task
from resources_servers.code_gen.tests.attempts import (
    FOLDER,
    SHARED,
    attempt,
    fenced,
    make_server,
    rows_of,
    verify,
)
from resources_servers.code_gen.tests.solutions import GOLD

SERVER = make_server()
EXAMPLES = {row["verifier_metadata"]["task_id"]: row for row in rows_of(FOLDER / "data" / "example.jsonl")}
FORMS = {
    "repeated_integers": "print(3)",
    "merge_intervals": "def merge_intervals(intervals): return intervals",
}


@pytest.mark.parametrize("task_id", list(EXAMPLES))
async def test_gold(task_id: str) -> None:
    scored = await verify(SERVER, fenced(GOLD[task_id]), EXAMPLES[task_id]["verifier_metadata"])
    assert (scored.reward, scored.failure_reason, scored.failure_detail) == (1.0, None, None)
    assert scored.tests_passed > 0
    assert scored.isolation is not None


@pytest.mark.parametrize("task_id", list(EXAMPLES))
@pytest.mark.parametrize("text", ["", "I can't.", fenced("pass"), "```cpp\nint main() {}\n```"])
async def test_no_ops_get_nothing(task_id: str, text: str) -> None:
    scored = await verify(SERVER, text, EXAMPLES[task_id]["verifier_metadata"])
    assert scored.reward == 0.0
    assert scored.failure_reason is not None


@pytest.mark.parametrize(("task_id", "code"), FORMS.items())
async def test_wrong_solutions_have_their_number_of_passed_tests(task_id: str, code: str) -> None:
    scored = await verify(SERVER, fenced(code), EXAMPLES[task_id]["verifier_metadata"])
    assert (scored.reward, scored.failure_reason) == (0.0, "wrong_answer")
    assert scored.failure_detail


async def test_only_the_last_block_of_the_last_message_counts() -> None:
    metadata = {"unit_tests": {"inputs": [""], "outputs": ["1"]}}
    assert (await verify(SERVER, fenced("print(0)") + fenced("print(1)"), metadata)).reward == 1.0
    assert (await verify(SERVER, fenced("print(1)") + fenced("print(0)"), metadata)).reward == 0.0
    hidden = f"<think>{fenced('print(1)')}</think>No code."
    assert (await verify(SERVER, hidden, metadata)).failure_reason == "does_not_compile"


async def test_an_answer_may_go_on_where_the_prompt_ends() -> None:
    prompt = 'def add(a, b):\n    """The sum."""\n'
    metadata = {"prompt": prompt, "entry_point": "add", "test": "def check(f):\n    assert f(1, 2) == 3"}
    for text in ("    return a + b\n", fenced("    return a + b"), fenced("def add(x, y): return x + y")):
        assert (await verify(SERVER, text, metadata)).reward == 1.0


async def test_a_time_limit_is_a_reason() -> None:
    server = make_server(unit_test_timeout_secs=0.3)
    scored = await verify(server, "while True: pass", {"unit_tests": {"inputs": [""], "outputs": [""]}})
    assert scored.failure_reason == "timed_out"


def test_over_http_the_verdict_has_the_fields_of_the_contract() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        body = attempt(fenced("print(int(input()) + 1)"), {"unit_tests": {"inputs": ["1"], "outputs": ["2"]}})
        scored = client.post("/verify", json=body).json()
        assert scored["reward"] == 1.0
        assert scored["extracted_model_code"] == "print(int(input()) + 1)\n"
        assert scored["failure_reason"] is None
        failed = client.post("/verify", json=attempt("x", {"unit_tests": {"inputs": ["1"], "outputs": []}}))
        assert failed.status_code == 422
        assert "1 inputs and 0 outputs" in failed.json()["error"]["message"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "neither unit_tests nor test"),
        ({}, "neither unit_tests nor test"),
        ({"task_id": "HumanEval/0"}, "there is no problem 'HumanEval/0' in problems_fpath"),
        ({"unit_tests": {"inputs": [], "outputs": []}}, "0 inputs"),
        ({"unit_tests": {"inputs": ["1"]}}, "outputs: Field required"),
        ({"unit_tests": {"inputs": [1], "outputs": ["1"]}}, "not text"),
        ({"unit_tests": {"inputs": ["{"], "outputs": ["1"], "fn_name": "f"}}, "Expecting property name"),
        ({"unit_tests": {"inputs": [1], "outputs": ["1"], "fn_name": "f"}}, "neither text nor a list"),
        ({"unit_tests": {"packed": "!!"}}, "cannot be unpacked"),
        ({"test": "def check(f): pass"}, "entry_point: Field required"),
    ],
)
async def test_a_row_that_cannot_be_graded_is_no_zero(metadata: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        await verify(SERVER, fenced("print(1)"), metadata)
    assert (caught.value.failure.code, caught.value.failure.param) == ("invalid_row", "verifier_metadata")


def test_unit_tests_are_read_in_the_forms_of_several_benchmarks() -> None:
    packed = base64.b64encode(zlib.compress(json.dumps({"inputs": ["1\n2"], "outputs": ["3"]}).encode()))
    rows: list[tuple[dict[str, Any], Any]] = [
        ({"inputs": ["1\n2"], "outputs": ["3"], "fn_name": "f"}, ([1, 2], [3])),
        ({"packed": packed.decode(), "fn_name": "Solution.f"}, ([1, 2], [3])),
        ({"inputs": [[1, [2]]], "outputs": [[3]], "fn_name": "f"}, ([1, [2]], [[3], 3])),
        ({"inputs": [[1]], "outputs": [[3, 4]], "fn_name": "f"}, ([1], [[3, 4]])),
    ]
    for unit_tests, (arguments, expected) in rows:
        task = read_task({"unit_tests": unit_tests}, {})
        assert isinstance(task, FunctionTask)
        assert (task.name, list(task.cases[0].arguments), task.cases[0].expected) == (
            "f",
            arguments,
            expected,
        )
    program = read_task({"unit_tests": {"inputs": [["1", "2"]], "outputs": [["3", "4"]]}}, {})
    assert isinstance(program, ProgramTask)
    assert (program.cases[0].stdin, program.cases[0].stdout) == ("1\n2", "3\n4")


async def test_problems_of_a_file_serve_rows_that_name_them(tmp_path: Path) -> None:
    problem = {
        "task_id": "t/1",
        "prompt": "",
        "entry_point": "f",
        "test": "def check(f):\n    assert f() == 1",
    }
    file = tmp_path / "problems.jsonl"
    file.write_text(json.dumps(problem) + "\n")
    server = make_server(problems_fpath=str(file))
    assert (await verify(server, fenced("def f(): return 1"), {"task_id": "t/1"})).reward == 1.0
    file.write_text('{"task_id": "a"}\n[]\n')
    with pytest.raises(ConfigError, match="line 2"):
        make_server(problems_fpath=str(file))
    with pytest.raises(ConfigError, match="problems_fpath cannot be read"):
        make_server(problems_fpath=str(tmp_path / "missing"))


@pytest.mark.parametrize("name", ["code_gen", "evalplus", "bigcodebench", "competitive_coding_challenges"])
def test_rows_of_the_ecosystem_are_tasks_or_refused_by_name(name: str) -> None:
    problems = {row["task_id"]: row for row in rows_of(SHARED / "humaneval" / "HumanEval.jsonl")}
    for row in rows_of(SHARED / "environment_examples" / f"{name}.jsonl"):
        if name == "competitive_coding_challenges":
            with pytest.raises(InputError, match="neither unit_tests nor test"):
                read_task(row.get("verifier_metadata"), problems)
            continue
        task = read_task(row["verifier_metadata"], problems)
        expected = {"code_gen": ProgramTask, "evalplus": CheckedTask, "bigcodebench": CheckedTask}[name]
        assert isinstance(task, expected)
        assert not isinstance(task, CheckedTask) or (task.style is None) == (name == "evalplus")


def test_metrics_count_what_had_no_code() -> None:
    passed = {"reward": 1.0, "failure_reason": None, "difficulty": "easy"}
    failed = {"reward": 0.0, "failure_reason": "no_code", "difficulty": "easy"}
    assert scores_of(failed) == {"accuracy": 0.0, "no_code": 1.0, "timed_out": 0.0}
    metrics = SERVER.compute_metrics([[passed, failed]])
    assert metrics["pass@1[avg-of-2]/accuracy"] == 50.0
    assert metrics["easy/pass@2/accuracy"] == 100.0
    assert "pass@2/accuracy" in SERVER.get_key_metrics(metrics)


async def test_a_server_that_requires_a_sandbox_does_not_start_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="prlimit"):
        await make_server(require_sandbox=True).on_start()


@pytest.mark.parametrize("over_http", [False, True])
def test_a_right_answer_is_rewarded_by_the_whole_gym(over_http: bool) -> None:
    task_id = "merge_intervals"
    row = EXAMPLES[task_id]
    (scored,) = run_environment(
        CompCodingResourcesServer, [row], [fenced(GOLD[task_id])], over_http=over_http
    )
    assert (scored["reward"], scored["tests_passed"]) == (1.0, 4)
