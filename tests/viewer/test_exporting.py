"""An export holds the selected rows and the answers about them, and no secret."""

from __future__ import annotations

import gzip
import re
from base64 import b64decode
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.output.row_index import decode_block, split_blocks
from nemo_gym.viewer.exporting import ExportedPage, check_target, export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from tests.browser.rows import (
    failure_of,
    message,
    nodes_document,
    row_of,
    sampled,
    write_log,
    write_nodes,
    write_run,
)
from tests.rollouts.lookback.many_runs import store_models

CANARY = "sk-canary-123456"


def answers_in(page: ExportedPage) -> dict[str, Any]:
    (data,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', page.html, re.DOTALL)
    content = orjson.loads(data)
    assert content["note"] == page.note
    answers: dict[str, Any] = content["answers"]
    return answers


def make_run(folder: Path, name: str = "out", reward: float = 0.0) -> Path:
    rows = [
        row_of(0, 0, [message("wrong")], reward),
        row_of(0, 1, [sampled("right", [1, 2], [3, 4], [-0.1, -0.2])], 1.0),
        row_of(1, 0, [message("wrong too")], 0.0),
    ]
    run = write_run(folder / f"{name}.jsonl", rows, [failure_of(2, 0, message="late")])
    with run.open("a", encoding="utf-8") as file:
        file.write('not a row\n{"torn')
    return run


def test_rows_and_answers_are_those_that_the_filter_selects(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    page = export_page(find_runs([run]), RowFilter("reward>0"))
    assert page.note.startswith(
        "1 of 3 rollouts and 0 of 1 failed attempts of out.jsonl, filtered by reward>0 are in this page; the figures "
        "and comparisons are of all 3, the causes of failures and the flags of those in the page. "
        "Nothing was hidden in them. Looked for: "
    )
    answers = answers_in(page)
    line = run.read_text(encoding="utf-8").splitlines(keepends=True)[1]
    assert answers[f"runs/r0/rows/0-{len(line)}?kind=rows"] == line
    assert answers[f"runs/r0/cards/0-{len(line)}?kind=rows"] == {"title": "Question 0", "answer": "right"}
    assert answers[f"runs/r0/tokens/0-{len(line)}?kind=rows"]["segments"][0]["ids"] == [1, 2, 3, 4]
    (block,) = split_blocks(b64decode(answers["runs/r0/blocks?kind=rows"]["b64"]))
    assert list(decode_block(block).columns["length"]) == [len(line)]
    assert answers["runs"]["runs"][0] | {"rows": 3, "planned": 3, "path": "out.jsonl"} == answers["runs/r0"]
    assert answers["runs/r0"]["held"] == {"rows": [1, 3], "failures": [0, 1]}
    assert answers["runs/r0/failures"] == {"groups": []}
    assert len(answers["runs/r0/flags"]["flags"]) >= 9


def test_the_limit_holds_for_each_kind(tmp_path: Path) -> None:
    page = export_page(find_runs([make_run(tmp_path)]), RowFilter(""), 2)
    assert page.note.startswith("2 of 3 rollouts and 1 of 1 failed attempts")
    assert answers_in(page)["runs/r0/failures"]["groups"][0]["message"] == "late"


def test_nothing_selected_is_an_empty_run(tmp_path: Path) -> None:
    page = export_page(find_runs([make_run(tmp_path)]), RowFilter("reward>9"))
    assert page.note.startswith("0 of 3 rollouts and 0 of 1")
    assert answers_in(page)["runs/r0/flags"] == {"rows": 0, "flags": []}


def test_figures_are_of_the_whole_run_whose_other_rows_are_not_in_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    tasks = [{**row_of(0, 0, []), "_ng_task_index": task} for task in range(2)]
    write_run(tmp_path / "out_materialized_inputs.jsonl", tasks)
    page = export_page(find_runs([run]), RowFilter("reward>0"))
    answers = answers_in(page)
    (rows,) = split_blocks(b64decode(answers["runs/r0/figures?kind=rows"]["b64"]))
    columns = decode_block(rows).columns
    assert [[*columns[name]] for name in ("task", "rollout", "reward")] == [
        [0, 0, 1],
        [0, 1, 0],
        [0.0, 1.0, 0.0],
    ]
    assert [*columns["agent"]] == ["an_agent"] * 3
    (failures,) = split_blocks(b64decode(answers["runs/r0/figures?kind=failures"]["b64"]))
    assert [*decode_block(failures).columns["outcome"]] == ["failed"]
    assert answers["runs/r0/equal_tasks"] == {"firsts": {"1": 0}}
    content = page.html.partition('id="run">')[2].partition("</script>")[0]
    assert "Question 0" in content
    assert "Question 1" not in content
    assert "wrong too" not in content


def test_a_page_with_all_rows_holds_no_columns_twice(tmp_path: Path) -> None:
    answers = answers_in(export_page(find_runs([make_run(tmp_path)]), RowFilter("")))
    assert not any("/figures" in path for path in answers)


def test_names_and_labels_of_rows_that_are_not_in_the_page_have_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TOKEN", CANARY)
    agent = {"agent_ref": {"name": f"agent-{CANARY}"}, f"of-{CANARY}": 2.0}
    rows = [row_of(0, 0, [message("x")], 1.0), row_of(1, 0, [message("x")], 0.0) | agent]
    run = write_run(tmp_path / "out.jsonl", rows)
    answers = answers_in(export_page(find_runs([run]), RowFilter("reward>0")))
    content = b64decode(answers["runs/r0/figures?kind=rows"]["b64"])
    assert CANARY.encode() not in content
    (block,) = split_blocks(content)
    assert [*decode_block(block).columns["agent"]] == ["an_agent", "agent-****"]


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_comparisons_are_those_of_the_whole_runs(tmp_path: Path, limit: int) -> None:
    rewards = [[0.0, 1.0, 0.5, 0.0], [1.0, 1.0, 0.0, 0.25]]
    paths = [
        write_run(
            tmp_path / f"{name}.jsonl",
            [row_of(task, 0, [message("x")], reward) for task, reward in enumerate(own)],
        )
        for name, own in zip(("one", "two"), rewards, strict=True)
    ]
    write_log(paths[0], "engine")
    runs = find_runs(paths)
    answers = answers_in(export_page(runs, RowFilter(""), limit))
    files = {run.id: run.files.rows for run in runs}
    for before, after in permutations(files):
        found = answers[f"compare?before={before}&after={after}"]
        expected = compare(files[before], files[after]).as_json()
        questions = [task.pop("question") for task in found["changed"]]
        assert questions == [
            f"Question {task['task_before']}" if task["task_before"] < limit else ""
            for task in expected["changed"]
        ]
        for task in expected["changed"]:
            del task["question"]
        for name in ("before", "after", "difference", "interval_95", "tasks", "changed"):
            assert found[name] == expected[name]
        notes = [note for told in found["runs"] for note in told["notes"]]
        (note,) = notes
        assert note.startswith("one.jsonl: 4 of 12 planned rollouts; the run has not ended")


def test_tables_of_all_choices_of_runs_are_those_of_the_whole_runs(tmp_path: Path) -> None:
    paths = store_models(tmp_path, {"a": 0.1, "b": 0.9, "c": 0.5}, tasks=5, repeats=2)
    runs = find_runs(paths)
    files = {run.id: run.files.rows for run in runs}
    answers = answers_in(export_page(runs, RowFilter(""), limit=1))
    for size in (2, 3):
        for names in combinations([run.id for run in runs], size):
            found = answers[f"table?runs={','.join(names)}"]
            table = read_run_table([files[name] for name in names]).to_json()
            expected = orjson.loads(orjson.dumps(table, option=orjson.OPT_NON_STR_KEYS))
            for run, told, name in zip(found["runs"], expected["runs"], names, strict=True):
                own = {"id": name, "path": files[name].name, "notes": run["notes"]}
                assert run == told | own
            for key in ("pairs", "differences", "environments", "score"):
                assert found[key] == expected[key]
    (ranking,) = [answer for path, answer in answers.items() if path.startswith("rank?")]
    assert len(ranking["models"]) == 3


def test_a_damaged_file_of_tasks_leaves_their_answer_out(tmp_path: Path) -> None:
    run = tmp_path / "out.jsonl.gz"
    run.write_bytes(gzip.compress(orjson.dumps(row_of(0, 0, [message("x")])) + b"\n"))
    (tmp_path / "out_materialized_inputs.jsonl.gz").write_bytes(b"\x1f\x8b broken")
    answers = answers_in(export_page(find_runs([run]), RowFilter("")))
    assert "runs/r0/rows/" in " ".join(answers)
    assert "runs/r0/equal_tasks" not in answers


def test_two_runs_hold_their_comparisons(tmp_path: Path) -> None:
    runs = find_runs([make_run(tmp_path, "one"), make_run(tmp_path, "two", reward=1.0)])
    answers = answers_in(export_page(runs, RowFilter("")))
    titles = {name: answers[f"runs/{name}"]["title"] for name in ("r0", "r1")}
    before, after = sorted(titles, key=titles.__getitem__)
    assert answers[f"compare?before={before}&after={after}"]["changed"][0]["difference"] == 0.5
    assert answers[f"compare?before={after}&after={before}"]["changed"][0]["difference"] == -0.5


def test_nodes_are_there_without_logs_and_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", CANARY)
    run = make_run(tmp_path)
    document = nodes_document()
    document["nodes"][0]["name"] = f"host-{CANARY}"
    write_nodes(run, document)
    page = export_page(find_runs([run]), RowFilter(""))
    answers = answers_in(page)
    assert answers["runs/r0"]["nodes"] == {"count": 2, "up": 1, "losses": 1}
    first, second = answers["runs/r0/nodes"]["nodes"]["nodes"]
    assert (first["name"], second["name"]) == ("host-****", "node2")
    assert CANARY not in page.html
    assert "a line of" not in page.html


def test_secrets_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    (tmp_path / "env.yaml").write_text("policy_api_key: from-env-yaml-1\n", encoding="utf-8")
    texts = [
        f"printed {CANARY}",
        "printed from-env-yaml-1",
        "https://me:hunter2-hunter2@example.com/",
        "harmless",
    ]
    rows = [row_of(task, 0, [message(text)]) for task, text in enumerate(texts)]
    rows[3]["password"] = "in-a-field-1"
    rows[3]["logprobs"] = [{"token": "harmless", "logprob": -0.5}]
    run = write_run(tmp_path / "out.jsonl", rows)
    page = export_page(find_runs([run]), RowFilter(""))
    for secret in (CANARY, "from-env-yaml-1", "hunter2-hunter2", "in-a-field-1"):
        assert secret not in page.html
    assert "Secrets are hidden in 4 of them." in page.note
    shown = [answer for path, answer in answers_in(page).items() if "/rows/" in path]
    assert orjson.loads(shown[3])["logprobs"] == [{"token": "harmless", "logprob": -0.5}]


def test_secrets_are_hidden_within_texts_of_json_and_in_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAGGLE_KEY", "of-this-environment")
    nested = orjson.dumps(orjson.dumps({"password": "in-a-text-of-a-text"}).decode()).decode()
    rows = [
        row_of(0, 0, [message(nested)]),
        row_of(1, 0, [message("printed of-this-environment")]),
        row_of(2, 0, [message("x")]) | {"kept": {f"gsk_{'aB3' * 16}": 1}},
        row_of(3, 0, [message("harmless")]),
    ]
    run = write_run(tmp_path / "out.jsonl", rows)
    page = export_page(find_runs([run]), RowFilter(""))
    for secret in ("in-a-text-of-a-text", "of-this-environment", "gsk_"):
        assert secret not in page.html, secret
    assert "Secrets are hidden in 3 of them." in page.note


def test_an_unknown_column_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='no column "rewrad"'):
        export_page(find_runs([make_run(tmp_path)]), RowFilter("rewrad<1"))


def test_only_pages_are_written() -> None:
    check_target(Path("run.html"))
    with pytest.raises(ConfigError, match="does not end in"):
        check_target(Path("rollouts.jsonl"))


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    deep = '{"_ng_task_index":9,"x":' + "[" * 300 + "]" * 300 + "}\n"
    half = '{"_ng_task_index":8,"_ng_rollout_index":0,"reward":1,"text":"\\ud800","response":{}}\n'
    content = run.read_text(encoding="utf-8").removesuffix('{"torn')
    run.write_text(content + deep + half, encoding="utf-8")
    page = export_page(find_runs([run]), RowFilter(""))
    assert page.note.startswith("4 of 4 rollouts")
    assert page.note.endswith("2 unreadable lines are left out.")
    assert half in answers_in(page).values()


def test_a_run_that_was_killed_keeps_its_plan_and_is_said(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    manifest = {"schema_version": 1, "identity": {}, "starts": [{"planned": 8}]}
    run.with_name("out_run.json").write_bytes(orjson.dumps(manifest))
    page = export_page(find_runs([run]), RowFilter(""))
    assert "out.jsonl: 3 of 8 planned rollouts; the run has not ended" in page.note
    details = answers_in(page)["runs/r0"]
    assert (details["state"], details["planned"], details["rows"]) == ("stopped", 8, 3)


def test_a_last_row_without_a_line_break_and_a_first_one_behind_a_mark_are_rows(tmp_path: Path) -> None:
    lines = [orjson.dumps(row_of(task, 0, [message("a")], 1.0)) for task in range(2)]
    run = tmp_path / "out.jsonl"
    run.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    page = export_page(find_runs([run]), RowFilter(""))
    assert page.note.startswith("2 of 2 rollouts")
