"""Repairs with tools and in folders, and their rewards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.testing import InProcessGym, call, read_rows, run_environment
from nemo_gym.transport.upstream_error import UpstreamError
from resources_servers.code_repair import app
from resources_servers.code_repair.app import MOST_FILES, CodeRepairResourcesServer
from resources_servers.code_repair.bugs import files_of

EXAMPLES = read_rows(Path(__file__).parents[1] / "data" / "example.jsonl")
ROW = EXAMPLES[1]


def package_of(row: dict[str, Any]) -> str:
    package: str = row["verifier_metadata"]["cases"][0]["call"].partition(".")[0]
    return package


def repaired(row: dict[str, Any]) -> dict[str, str]:
    return {path: text for path, text in files_of(package_of(row)).items() if "__init__" not in path}


def play(row: dict[str, Any], *turns: Any, **options: Any) -> dict[str, Any]:
    (scored,) = run_environment(CodeRepairResourcesServer, [row], [*turns, "Done."], **options)
    return scored


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: row["verifier_metadata"]["task_id"])
def test_a_repair_with_the_tools_gets_the_reward(row: dict[str, Any]) -> None:
    writes = [call("write_file", path=path, content=text) for path, text in repaired(row).items()]
    scored = play(row, *writes, call("run_tests"))
    assert (scored["reward"], scored["failure_reason"]) == (1.0, None)
    assert scored["cases_passed"] == len(row["verifier_metadata"]["cases"])
    ran = json.loads(scored["response"]["output"][-2]["output"])
    assert (ran["passed"], "OK" in ran["output"]) == (True, True)


def test_the_visible_tests_fail_before_the_repair() -> None:
    scored = play(ROW, call("run_tests"))
    ran = json.loads(scored["response"]["output"][-2]["output"])
    assert (ran["passed"], "FAIL" in ran["output"] or "ERROR" in ran["output"]) == (False, True)
    assert (scored["reward"], scored["failure_reason"], scored["cases_passed"]) == (0.0, "unchanged", 0)


def test_a_change_that_is_no_repair_gets_nothing() -> None:
    path = ROW["verifier_metadata"]["source_files"][0]
    scored = play(
        ROW, call("write_file", path=path, content=ROW["folder"]["files"][path] + "\n# looked at\n")
    )
    assert (scored["reward"], scored["failure_reason"]) in ((0.0, "wrong_answer"), (0.0, "raised"))


def test_files_are_listed_and_read() -> None:
    scored = play(
        ROW, call("list_files"), call("read_file", path=ROW["verifier_metadata"]["source_files"][0])
    )
    outputs = [json.loads(item["output"]) for item in scored["response"]["output"] if "output" in item]
    assert outputs[0]["files"] == sorted(ROW["folder"]["files"])
    assert outputs[1]["content"] == ROW["folder"]["files"][ROW["verifier_metadata"]["source_files"][0]]


def test_the_hidden_cases_are_in_no_file_and_in_no_prompt() -> None:
    for row in EXAMPLES:
        shown = json.dumps([row["folder"], row["responses_create_params"]])
        hidden = [
            case
            for case in row["verifier_metadata"]["cases"]
            if f"{case['call']}({', '.join(map(repr, case['arguments']))})"
            not in json.loads(json.dumps(shown))
        ]
        assert len(hidden) > 5
        assert "expected" not in shown


@pytest.mark.parametrize("path", ["../escaped", "/etc/passwd", "a/../../b", "", "a\0b"])
def test_a_path_out_of_the_repository_is_refused(path: str) -> None:
    scored = play(ROW, call("write_file", path=path, content="x"), call("read_file", path=path))
    outputs = [item["output"] for item in scored["response"]["output"] if "output" in item]
    assert all("plain relative path" in output for output in outputs)


def test_files_are_bounded_in_size_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LONGEST_FILE", 100)
    scored = play(ROW, call("write_file", path="big", content="x" * 101))
    assert "may have" in scored["response"]["output"][1]["output"]
    many = [call("write_file", path=f"f{n}", content="") for n in range(MOST_FILES)]
    scored = play(ROW, many)
    assert "may have" in [item["output"] for item in scored["response"]["output"] if "output" in item][-1]


def test_files_that_cannot_be_written_are_the_tools_error() -> None:
    scored = play(
        ROW,
        call("write_file", path="a", content=""),
        call("write_file", path="a/b", content=""),
        call("run_tests"),
    )
    assert "cannot be written together" in scored["response"]["output"][5]["output"]


async def test_the_files_of_an_agents_folder_are_judged_and_kept_for_another_verification() -> None:
    gym = InProcessGym()
    gym.add(CodeRepairResourcesServer, "env")
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": []}
    row = {**ROW, "response": answer, "folder_files": {**repaired(ROW), "tests/x.py": "raise SystemExit"}}
    await gym.post("env", "/seed_session", row, session="one")
    scored = await (await gym.post("env", "/verify", row, session="one")).json()
    assert scored["reward"] == 1.0
    assert set(scored["folder_files"]) <= set(ROW["verifier_metadata"]["source_files"])
    again = {**row, **{key: scored[key] for key in ("folder_files",)}}
    assert (await (await gym.post("env", "/verify", again, session="later")).json())["reward"] == 1.0


async def test_the_tools_are_offered_over_mcp() -> None:
    gym = InProcessGym()
    gym.add(CodeRepairResourcesServer, "env", expose_tools_over_mcp=True)
    reply = await gym.post("env", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    tools = (await reply.json())["result"]["tools"]
    declared = [tool["name"] for tool in ROW["responses_create_params"]["tools"]]
    assert [tool["name"] for tool in tools] == declared


def test_a_row_without_cases_is_refused() -> None:
    row = {**ROW, "verifier_metadata": {**ROW["verifier_metadata"], "cases": []}}
    with pytest.raises(UpstreamError, match="cases"):
        play(row)
