"""Tables of several runs fit a terminal, and Markdown has the same cells."""

from __future__ import annotations

from pathlib import Path

import orjson

from nemo_gym.cli._run_table import describe_differences, draw_tables, write_markdown
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.output.run_facts import KeyDifference
from tests.rollouts.expenses import note_expenses
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import scored_row, store


def test_every_run_has_a_line_and_every_pair_another(tmp_path: Path) -> None:
    table = read_run_table(store_models(tmp_path, {"small": 0.2, "large": 0.8}, tasks=20, repeats=2))
    lines = list(draw_tables(table, 80))
    assert max(map(len, lines)) <= 80
    assert sum("org/small" in line for line in lines) == 4, "its facts, a cell, a pair, the key that differs"
    assert lines[0].startswith("org/small: small.jsonl")
    written = list(write_markdown(table))
    assert sum(line == "\n### quiz\n" for line in written) == 1
    assert len([line for line in written if line.startswith("| org/")]) == 3


def test_the_figures_of_long_names_and_several_k_fit_a_terminal(tmp_path: Path) -> None:
    timing = {"queue": 0.0, "act": 2.0, "verify": 1.0, "total": 3.0}
    paths = store_models(tmp_path, {"Meta-Long-3.3-70B-Inst": 0.2, "b": 0.8}, tasks=12, repeats=2)
    paths += store_models(tmp_path, {"c": 0.5}, tasks=12, repeats=4)
    for path in paths:
        rows = [orjson.loads(line) | {"_ng_timing": timing} for line in path.read_bytes().splitlines()]
        for row in rows:
            row["response"]["usage"] = {"total_tokens": 1000}
        path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    table = read_run_table(paths)
    lines = list(draw_tables(table, 80))
    assert max(map(len, lines)) <= 80
    (heads,) = [line.split() for line in lines if line.startswith("run ")]
    assert heads == ["run", "mean", "95", "%", "interval", "pass@2", "tokens", "seconds"]
    (pairs,) = [line.split() for line in lines if line.startswith("before ")]
    assert pairs == ["before", "after", "difference", "95", "%", "interval", "tasks"]


def test_solved_tasks_have_pass_at_k_beside_an_environment_with_partial_rewards(tmp_path: Path) -> None:
    rows = [
        scored_row(task + 10 * number, k, reward, agent=agent)
        for number, (agent, rewards) in enumerate({"quiz": (0.0, 1.0), "shop": (0.25, 0.5)}.items())
        for task in range(3)
        for k, reward in enumerate(rewards)
    ]
    table = read_run_table([store(tmp_path / "out.jsonl", rows)])
    text = "\n".join(draw_tables(table, 80))
    quiz, shop = text.split("\nshop\n")
    assert "pass@2" in quiz
    assert "100.0 %" in quiz
    assert "best@2" in shop
    assert "%" not in shop.partition("\n\n")[0].replace("95 % interval", "")


def test_long_values_and_many_keys_are_cut() -> None:
    keys = [KeyDifference(f"key{number}", ("x" * 500, "y")) for number in range(40)]
    lines = list(describe_differences(keys))
    assert max(map(len, lines)) < 80
    assert lines[-1] == "… and 10 more keys (--json has all)"


def test_expenses_have_a_table_and_the_cost_of_a_rollout_a_column(tmp_path: Path) -> None:
    first, second = store_models(tmp_path, {"small": 0.2, "large": 0.8}, tasks=20, repeats=2)
    lines = list(draw_tables(read_run_table([first, second]), 80))
    assert not any("spent" in line or "cost" in line for line in lines), "runs without expenses"
    priced = first.read_text().replace(
        '"reward":', '"_ng_spent":{"policy_model":[1,5,0,5]},"_ng_cost":0.25,"reward":'
    )
    first.write_text(priced)
    table = read_run_table([note_expenses(first), second])
    lines = list(draw_tables(table, 120))
    assert max(map(len, lines)) <= 120
    place = lines.index("\nquiz")
    assert lines[place + 1].split().count("cost") == 1
    assert "0.250000" in lines[place + 2].split()
    assert "0.250000" not in lines[place + 3].split()
    (judge,) = [line for line in lines if "judge_model" in line]
    assert judge.split()[-6:] == ["2", "400", "0", "100", "0.0300", "-"]
    assert sum(line.startswith("| org/small | environment |") for line in write_markdown(table)) == 2
    assert max(map(len, draw_tables(table, 80))) <= 80
    assert table.to_json()["runs"][0]["spent"]["tokens"] == 2540
