"""Every page shows the demo's run with the right counts."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from nemo_gym.metrics import mean, reward_interval
from nemo_gym.rollouts.lookback.reward_profile import profile_tasks
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.serving.panel import BoardField, ImageField, Panel, TableField, TextField
from tests.browser.conftest import serving
from tests.browser.rows import ITEMS, PIXEL, failure_of, message, row_of, sampled, write_log, write_run
from tests.browser.visits import Visit


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_runs_and_overview(demo: str, demo_run: Path, visit: Visit) -> None:
    visit.open(demo)
    visit.wait_for("complete")
    visit.page.get_by_role("link", name="rollouts").click()
    visit.wait_for("Reward by agent")
    figures = visit.text(".figures").split()
    assert figures[:5] == ["Tasks", "15", "Rollouts", "30", "of"]
    metrics = json.loads(demo_run.with_name("rollouts_aggregate_metrics.json").read_text(encoding="utf-8"))
    for agent in metrics:
        own = agent["agent_metrics"]
        interval = reward_interval(own)
        if interval is not None:
            visit.wait_for(f"{interval.low:.3f} to {interval.high:.3f}")
        table = visit.page.get_by_role("group", name="Reward by agent")
        line = table.locator("tr").filter(has_text=agent["agent_ref"]["name"]).inner_text()
        assert f"{own['mean/reward']:.3f}" in line
        assert (" to " in line) == (interval is not None), "tasks that agree have no interval"
        if interval is not None:
            assert f"{interval.low:.3f} to {interval.high:.3f}" in line
        assert f"{own['pass@2/reward']:.1f} %" in line


def test_an_interval_takes_equal_tasks_for_one(tmp_path: Path, visit: Visit) -> None:
    rows = [row_of(task, 0, [message("x")], 5.0 * (task % 4)) for task in range(20)]
    run = write_run(tmp_path / "out.jsonl", rows)
    tasks = run.with_name("out_materialized_inputs.jsonl")
    write_run(tasks, [{**row_of(task % 10, 0, []), "_ng_task_index": task} for task in range(20)])
    cell = read_run_table([run]).runs[0].cells["an_agent"]
    with serving([run]) as address:
        visit.open(address, "#/r0")
        visit.wait_for(f"{cell.low:.3f} to {cell.high:.3f}")


def test_rollouts_are_filtered_and_sorted(demo: str, demo_run: Path, visit: Visit) -> None:
    visit.open(demo, "#/r0/rollouts")
    visit.wait_for("30 of 30")
    lost = [row for row in read(demo_run) if row["reward"] != 1.0]
    visit.page.locator("#filter").fill("reward<1")
    visit.wait_for(f"{len(lost)} of 30")
    visit.page.locator("#filter").fill("agent:*session*")
    visit.wait_for("10 of 30")
    visit.page.get_by_role("button", name="tokens").click()
    visit.page.locator('[aria-sort="descending"]').wait_for()
    visit.page.wait_for_timeout(200)
    titles = visit.page.get_by_role("columnheader").all_inner_texts()
    column = next(at for at, title in enumerate(titles, start=1) if title.startswith("tokens"))
    shown = [
        int(text.replace(",", ""))
        for text in visit.page.locator(f".grid-rows [role=row] > :nth-child({column})").all_inner_texts()
    ]
    assert shown == sorted(shown, reverse=True)
    assert len(shown) == 10


def test_a_problem_is_shown_at_its_place(demo: str, visit: Visit) -> None:
    visit.open(demo, "#/r0/rollouts?q=reward<1 nonsense>2")
    visit.wait_for('At 10: There is no column "nonsense"')
    assert visit.text(".problem mark") == "nonsense>2"


def test_texts_are_searched_in_the_rows(demo: str, demo_run: Path, visit: Visit) -> None:
    lines = demo_run.read_text(encoding="utf-8").lower().splitlines()
    count = sum("umbrella" in line for line in lines)
    visit.open(demo, '#/r0/rollouts?q="umbrella"')
    visit.wait_for(f"{count} of 30")
    assert "umbrella" in visit.text(".excerpt")


def test_tasks_have_the_figures_of_the_reward_profile(demo: str, demo_run: Path, visit: Visit) -> None:
    with closing(StoredRun(demo_run)) as run:
        profiles = profile_tasks(run)
    visit.open(demo, "#/r0/rollouts?group=task&sort=task")
    visit.wait_for("30 of 30 in 15 tasks")
    lines = [line.split("\n") for line in visit.page.locator(".grid-rows [role=row]").all_inner_texts()]
    assert [line[:6] for line in lines] == [
        [
            str(group.task),
            f"{mean(profile.rewards):.3f}",
            f"{100 * max(profile.rewards):.1f} %",
            "2",
            "2",
            group.agent,
        ]
        for group, profile in sorted(profiles.items())
    ]
    visit.page.locator(".grid-rows a").first.click()
    visit.wait_for("2 attempts, 2 scored")


def test_the_raw_row_is_that_of_the_file(demo: str, demo_run: Path, visit: Visit) -> None:
    visit.open(demo)
    for line in demo_run.read_text(encoding="utf-8").splitlines()[:5]:
        row = json.loads(line)
        visit.go(f"#/r0/rollout/{row['_ng_task_index']}/{row['_ng_rollout_index']}?tab=raw")
        visit.wait_for(row["response"]["id"], "#raw-row")
        assert visit.page.locator("#raw-row").text_content() == line


def test_configuration_names_the_files(demo: str, visit: Visit) -> None:
    visit.open(demo, "#/r0/config")
    visit.wait_for("rollouts_aggregate_metrics.json")
    assert "config_hash" in visit.text()


def test_every_item_type_renders(tmp_path: Path, visit: Visit) -> None:
    run = write_run(tmp_path / "items.jsonl", [row_of(0, 0, ITEMS, verdict="it is right")])
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0")
        visit.wait_for("Question 0")
        visit.show_all_items()
        for expected in (
            *("a plan", "needle", "found it", "ls -la", "files", "{not json", "a book", "print(1)", "one"),
            *("a question", "from the future", "https://example.com/i.png", "I will not.", "a string"),
        ):
            visit.wait_for(expected, ".transcript")
        assert visit.page.locator(".item").count() == len(ITEMS) + 1
        assert visit.page.locator(".item img").count() == 1
        assert "it is right" in visit.text(".reward")


def test_markdown_is_text_as_it_was_written(tmp_path: Path, visit: Visit) -> None:
    text = "# Title\n\n**bold** [docs](https://example.com/x) ![i](https://example.com/y.png)\n\n| a |\n|---|\n| 1 |"
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [message(text)])])
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0")
        for _ in ("as sampled", "formatted"):
            visit.wait_for("Title", ".voice-assistant")
            assert visit.page.locator(".voice-assistant pre.exact").text_content() == text
            assert visit.page.locator(".transcript a, .transcript img").count() == 0
            visit.press("m")


def test_the_panel_of_an_environment(tmp_path: Path, visit: Visit) -> None:
    fields = [
        TextField(title="Words", text="some words"),
        TextField(kind="diff", text="-old\n+new"),
        ImageField(url=f"data:image/png;base64,{PIXEL}"),
        TableField(columns=["name", "value"], rows=[["one", 1], ["two", None]]),
        BoardField(rows=[["A", "K"], ["9", "7"]]),
    ]
    panel = Panel(title="The end", fields=fields).model_dump()
    rows = [row_of(0, 0, [message("x")], panel=panel), row_of(1, 0, [message("x")], info={"panel": panel})]
    with serving([write_run(tmp_path / "out.jsonl", rows)]) as address:
        visit.open(address)
        for task in (0, 1):
            visit.go(f"#/r0/rollout/{task}/0")
            visit.wait_for(f"Task {task}", "h1")
            visit.wait_for("The end", ".panel")
            assert visit.page.locator(".panel .board td").all_inner_texts() == ["A", "K", "9", "7"]
            assert visit.page.locator(".panel .list th").all_inner_texts() == ["name", "value"]
            assert visit.text(".panel .good") == "+new\n"
            assert visit.page.locator(".panel img").count() == 1


def test_tokens_of_every_position(tmp_path: Path, visit: Visit) -> None:
    calls = [
        sampled("one", [1, 2], [30, 31, 32], [-0.1, -4.0, -0.5]),
        sampled("two", [1, 2, 30, 31, 32, 7], [40], [-1.0]),
        sampled("other", [9, 9], [50], [-0.25]),
    ]
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, calls)])
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0?tab=tokens")
        visit.wait_for("segment 1 of 2 · 7 ids · 4 trained")
        tokens = visit.page.locator(".token[data-at]")
        assert tokens.all_inner_texts() == [f"[{number}]" for number in (1, 2, 30, 31, 32, 7, 40)]
        assert visit.page.locator(".gutter").all_inner_texts() == [
            "call 0 prompt", "call 0 sampled", "call 1 prompt", "call 1 sampled"
        ]  # fmt: skip
        visit.press("n")
        visit.wait_for("-4", ".token-facts")
        assert visit.text(".token.active") == "[31]"
        visit.page.get_by_role("button", name="loss mask").click()
        assert visit.page.locator(".token.trained[data-at]").count() == 4
        visit.press("s")
        visit.wait_for("The segment begins because of")


def test_failures_and_flags(tmp_path: Path, visit: Visit) -> None:
    failures = [
        failure_of(task, 0, message="no answer in 30 s", remedy="Raise the limit.", peer="policy")
        for task in (1, 2)
    ]
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [message("x")])], failures)
    write_log(run, "policy", *[f"INFO line {number}" for number in range(50)], "ERROR <b>refused</b>")
    with serving([run]) as address:
        visit.open(address, "#/r0/failures")
        visit.wait_for("2 failed attempts, by cause")
        for expected in ("timeout", "no answer in 30 s", "Raise the limit.", "policy", "1/0", "2/0"):
            assert expected in visit.text()
        assert visit.page.locator(".log .text").inner_text().splitlines()[-1].endswith("ERROR <b>refused</b>")
        assert visit.text(".log summary") == "policy.log, before the first of them"
        visit.page.get_by_role("link", name="2/0").click()
        visit.wait_for("Task 2, rollout 0, attempt 0")
        visit.go("#/r0/flags")
        visit.wait_for("It is not a verdict")
        assert visit.page.locator(".card").count() >= 9


def test_a_flag_leads_to_its_rollout(tmp_path: Path, visit: Visit) -> None:
    rows = [row_of(0, 0, [message("x")]), row_of(1, 0, [])]
    with serving([write_run(tmp_path / "out.jsonl", rows)]) as address:
        visit.open(address, "#/r0/flags")
        visit.wait_for("the response has no output", ".findings")
        visit.page.locator(".findings").get_by_role("link", name="1/0").first.click()
        visit.wait_for("Task 1, rollout 0", "h1")


def test_a_rule_can_be_switched_off(tmp_path: Path, visit: Visit) -> None:
    with serving([write_run(tmp_path / "out.jsonl", [row_of(0, 0, [])])]) as address:
        visit.open(address, "#/r0/flags")
        visit.wait_for("the response has no output", ".findings")
        switch = visit.page.get_by_role("checkbox", name="empty turn")
        switch.uncheck()
        visit.page.locator(".findings").filter(has_text="no output").wait_for(state="detached")
        visit.page.reload()
        visit.wait_for("It is not a verdict")
        visit.page.get_by_role("checkbox", name="empty turn", checked=False).check()
        visit.wait_for("the response has no output", ".findings")


def test_marks_are_saved_as_a_file_that_the_viewer_reads(tmp_path: Path, visit: Visit) -> None:
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [])])
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0")
        visit.page.get_by_role("button", name="looks fine").click()
        visit.go("#/r0/flags")
        visit.wait_for("looks fine", ".findings")
        with visit.page.expect_download() as saved:
            visit.page.get_by_role("button", name="Save 1 marks as a file").click()
        saved.value.save_as(tmp_path / saved.value.suggested_filename)
        assert saved.value.suggested_filename == "out_looks_fine.json"
        visit.page.evaluate("localStorage.clear()")
        visit.page.reload()
        visit.wait_for("looks fine", ".findings")


def test_attempts_differ_first_at_a_token(tmp_path: Path, visit: Visit) -> None:
    rows = [
        row_of(0, number, [sampled(f"I say {token}", [1, 2], [3, token], [-0.1, -0.2])])
        for number, token in enumerate((7, 8))
    ]
    with serving([write_run(tmp_path / "out.jsonl", rows)]) as address:
        visit.open(address, "#/r0/rollout/0/0?tab=tokens")
        visit.page.locator('.token[data-at="3"]').wait_for()
        visit.press("c")
        visit.wait_for(
            "By token, the attempts differ first at position 3: rollout 0 [7] rollout 1 [8]", ".notice"
        )


def test_comparison_puts_the_largest_change_first(tmp_path: Path, visit: Visit) -> None:
    rewards: dict[str, list[float]] = {"before": [1, 0.5, 0, 1], "after": [1, 1, 1, 1]}
    for name, values in rewards.items():
        own = row_of(10 + len(name), 0, [message("x")])
        rows = [row_of(task, 0, [message("x")], value) for task, value in enumerate(values)]
        write_run(tmp_path / f"{name}.jsonl", [*rows, own])
    with serving([tmp_path]) as address:
        visit.open(address)
        visit.wait_for("2 runs")
        for title in rewards:
            visit.page.get_by_role("checkbox", name=f"Choose {title}").check()
        visit.page.get_by_role("button", name="Compare before with after").click()
        visit.wait_for("Changed tasks, the largest changes first")
        table = visit.page.get_by_role("group", name="Changed tasks")
        lines = [line.split() for line in table.locator("tbody tr").all_inner_texts()]
        assert [line[:4] for line in lines] == [
            ["2", "+1.000", "0.000", "1.000"],
            ["1", "+0.500", "0.500", "1.000"],
        ]
        for name in rewards:
            visit.wait_for(f"Only in {name}: 1 task", "details")


def test_attempts_differ_first_where_they_differ(tmp_path: Path, visit: Visit) -> None:
    rows = [
        row_of(0, number, [message("the same"), message(f"I say {answer}")])
        for number, answer in enumerate(("yes", "no"))
    ]
    with serving([write_run(tmp_path / "out.jsonl", rows)]) as address:
        visit.open(address, "#/r0/task/0")
        visit.wait_for("2 items are the same in all 2 attempts")
        assert visit.page.locator(".difference mark").all_inner_texts() == ["yes", "no"]
