"""The closing table of a run."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.failures import Boundary, Failure
from nemo_gym.metrics import FailedCalls
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.run_facts import RunFacts
from nemo_gym.rollouts.run.closing import print_summary
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.rollouts.run.summary import AgentSummary, CollectSummary
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from nemo_gym.tables import INTERVAL_MEANING
from tests.rollouts.doubles import failure
from tests.rollouts.run.test_until_estimate import MEAN, PAIR
from tests.screens import LONG_NAMES, WIDTHS, is_as_captured

AGENT = AgentSummary(
    agent="simple_agent",
    tasks=120,
    rollouts=480,
    completed=440,
    truncated=20,
    failed=15,
    missing=5,
    mean_reward=0.6543,
    ci95=(0.5871, 0.7215),
    pass_at={1: 65.4, 2: 80.1, 3: 83.0, 4: 86.2},
    short_tasks={4: 9},
    coverage=95.8,
)
BUG = Failure(
    Boundary.VERIFIER,
    "unhandled_exception",
    "ZeroDivisionError: division by zero",
    peer="shop",
    remedy="See the log of `shop` for the traceback.",
    place="resources_servers/shop/app.py:17",
)


def a_summary(*agents: AgentSummary, folder: Path = Path("results")) -> CollectSummary:
    counters = RunCounters(480, completed=440, truncated=20)
    counters.truncations.update({"max_steps": 15, "context_overflow": 5})
    for task, each in enumerate([BUG] * 12 + [failure(retryable=True)] * 3):
        counters.failed += 1
        counters.failure_groups.note(RolloutId(task, 0), each.kind, each)
    overall = replace(agents[0], agent="overall", tasks=1440, rollouts=5760) if len(agents) > 1 else None
    return CollectSummary(
        RunFiles.from_output(folder / "out.jsonl"),
        list(agents),
        counters,
        seconds=83.0,
        overall=overall,
        failures=counters.failure_groups.rank_groups(),
    )


def printed(summary: CollectSummary, width: int | None = None) -> list[str]:
    stream = io.StringIO()
    print_summary(summary, stream, width=width)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_agents_are_rows_whose_names_are_never_broken(width: int) -> None:
    agents = [replace(AGENT, agent=name) for name in LONG_NAMES]
    lines = printed(a_summary(*agents), width)
    table = lines[:14]
    assert max(map(len, table)) <= width
    assert [row.split()[0] for row in table[1:]] == [*LONG_NAMES, "overall"]
    assert {"reward", "failed"} <= set(table[0].split())
    assert is_as_captured(f"closing_{width}", lines)


def test_in_a_pipe_the_table_has_all_columns() -> None:
    head, row, mark, *_ = printed(a_summary(AGENT))
    assert head.split("  ")[0] == "agent"
    assert " ".join(row.split()) == (
        "simple_agent 120 480 440 20 15 5 0.654 0.587 to 0.722 65.4 % 80.1 % 86.2 %* 95.8 %"
    )
    assert mark == "* without the tasks that have fewer than k rewards: 9 of 120 at k = 4"


def test_the_table_says_of_which_mean_its_intervals_are() -> None:
    assert INTERVAL_MEANING in printed(a_summary(AGENT))
    assert INTERVAL_MEANING not in printed(a_summary(replace(AGENT, ci95=None)))
    assert INTERVAL_MEANING not in printed(replace(a_summary(AGENT), estimate=MEAN))
    assert INTERVAL_MEANING in printed(replace(a_summary(AGENT), estimate=PAIR))
    told = (
        "With --until, tasks with many rewards are uncertain ones: pass@k of a large k may be below pass@1."
    )
    drawn, planned = (printed(replace(a_summary(AGENT), estimate=estimate)) for estimate in (MEAN, None))
    assert (told in drawn, told in planned) == (True, False)


def test_failures_and_truncations_have_their_causes() -> None:
    text = "\n".join(printed(a_summary(AGENT)))
    for part in (
        "460 rows in 1:23, 5.5/s",
        "20 rollouts were truncated: 15 by max_steps, 5 by context_overflow",
        "15 rollouts failed:",
        "12 × verifier:unhandled_exception",
        "raised at resources_servers/shop/app.py:17",
        "for example task 0, rollout 0",
        "3 × engine:engine_down",
    ):
        assert part in text


def test_the_causes_are_those_of_this_start_if_an_earlier_one_had_rows() -> None:
    summary = a_summary(AGENT)
    summary.counters.finished_before = 100
    summary.counters.cancelled = 1
    lines = printed(summary)
    assert "20 rollouts were truncated in this start: 15 by max_steps, 5 by context_overflow" in lines
    assert "1 rollout was cancelled in this start" in lines
    assert any(line.endswith("rollouts failed in this start:") for line in lines)


def test_missing_rollouts_are_shown_at_any_width() -> None:
    for each, is_shown in ((AGENT, True), (replace(AGENT, missing=0), False)):
        titles = printed(a_summary(replace(each, agent="a" * 40)), 80)[0].split()
        assert ("missing" in titles) is is_shown


def test_an_interrupted_run_shows_its_rollouts_in_80_columns() -> None:
    titles, row, *_ = printed(a_summary(replace(AGENT, agent="environment_simple_agent")), 80)
    assert titles.split()[1:] == ["rollouts", "failed", "missing", "reward", "95", "%", "interval"]
    assert row.split()[1:4] == ["480", "15", "5"]


@pytest.mark.parametrize("missing", [0, 5])
@pytest.mark.parametrize("width", range(60, 160, 5))
def test_no_table_has_pass_at_k_without_the_interval_of_the_mean(missing: int, width: int) -> None:
    titles = printed(a_summary(replace(AGENT, missing=missing)), width)[0]
    assert "interval" in titles or "pass@" not in titles


def test_the_mark_is_explained_for_the_columns_that_are_shown() -> None:
    narrow, wide = (printed(a_summary(replace(AGENT, agent="a" * 40)), width) for width in (80, 200))
    assert "pass@4" not in narrow[0]
    assert not [line for line in narrow if line.startswith("*")]
    assert "pass@4" in wide[0]
    assert [line for line in wide if line.startswith("* without")]


def test_no_figure_is_marked_where_no_task_has_a_reward() -> None:
    failed = replace(
        AGENT, tasks=5, mean_reward=None, ci95=None, pass_at={}, short_tasks={1: 5}, coverage=0.0
    )
    _, row, *rest = printed(a_summary(failed))
    assert "*" not in row
    assert not [line for line in rest if line.startswith("*")]
    lines = printed(a_summary(replace(AGENT, agent="a"), failed))
    assert [line for line in lines if line.startswith("*")] == [
        "* without the tasks that have fewer than k rewards, counted for each agent: 9 of 125 at k = 4"
    ]


def test_notes_files_and_the_next_step_are_printed(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("{}\n")
    stop = StopReason("systemic_failure", "the engine is gone", "Start it.")
    summary = replace(a_summary(AGENT, folder=tmp_path), stop=stop, invalid_rows=2, notes=["a remark"])
    text = "\n".join(printed(summary))
    for part in (
        "2 malformed rows were skipped",
        "note: a remark",
        str(tmp_path / "out.jsonl"),
        "stopped: the engine is gone",
        "-> Start it.",
        f"view: gym view {tmp_path / 'out.jsonl'}",
        "next: the same command with +resume_from_cache=true",
    ):
        assert part in text


def test_no_color_leaves_no_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in "\n".join(printed(a_summary(AGENT)))


def test_the_model_and_the_sampling_are_one_line_of_at_most_80_columns() -> None:
    facts = RunFacts(("Qwen/Qwen3-8B",), sampling={"temperature": 0.7, "top_p": 1})
    assert "model: Qwen/Qwen3-8B · temperature 0.7, top_p 1" in printed(
        replace(a_summary(AGENT), facts=facts)
    )
    assert "model: a, b" in printed(replace(a_summary(AGENT), facts=RunFacts(("a", "b"))))
    long = RunFacts(("m" * 60,), sampling={"metadata": {"extra_body": "x\n" * 60}})
    (line,) = (each for each in printed(replace(a_summary(AGENT), facts=long), 80) if "model:" in each)
    assert (len(line), line[-1]) == (80, "…")
    assert not [each for each in printed(a_summary(AGENT)) if each.startswith("model:")]


def test_the_commit_of_the_users_repository_is_printed() -> None:
    stream = io.StringIO()
    told = {"commit": "0123456789abcdef0123", "dirty": True}
    print_summary(replace(a_summary(AGENT), repository=told), stream)
    assert "commit: 0123456789ab, with changes\n" in stream.getvalue()
    assert a_summary(AGENT).to_json()["repository"] is None


def test_failed_tool_calls_are_told_with_their_share_cause_and_place() -> None:
    calls = [
        FailedCalls(FailedCall("guess", ToolErrorKind.RAISED, f"ValueError: {cause}", "app.py:48"), 24, 30)
        for cause in "abcdefg"
    ]
    stream = io.StringIO()
    print_summary(replace(a_summary(AGENT), failed_tool_calls=calls), stream, width=200)
    lines = stream.getvalue().splitlines()
    assert "24 of 30 calls of `guess` failed: ValueError: a (app.py:48)" in lines
    assert "… and 48 tool calls by 2 other causes" in lines
    assert not any("ValueError: f" in line for line in lines)


def test_a_run_without_failed_tool_calls_says_nothing_of_tools() -> None:
    stream = io.StringIO()
    print_summary(a_summary(AGENT), stream, width=200)
    assert "calls of" not in stream.getvalue()


def test_the_closing_lines_say_what_the_run_has_spent_by_model_and_who_controlled_it() -> None:
    model = {
        "server": "policy_model",
        "model": "mock",
        "role": "policy",
        "calls": 4,
        "input": 2000,
        "cached": 80,
        "output": 40,
        "cost": 0.0123,
    }
    spent = {
        "tokens": 2040,
        "cost": 0.0123,
        "seconds": 75.0,
        "models": [model],
        "agents": {
            "a": {"tokens": 2040, "cost": 0.0123, "seconds": 75.0, "servers": {"policy_model": model}}
        },
    }
    event = {
        "at": "2026-11-23T12:03:11.000+00:00",
        "verb": "pause",
        "by": "gym ctl",
        "changes": ["nothing starts"],
    }
    lines = printed(replace(a_summary(), spent=spent, control=[event]))
    assert "pause at 12:03:11 by gym ctl: nothing starts" in lines
    assert "spent: 2,040 tokens, cost 0.0123, in 0:01:15 of attempts" in lines
    assert (
        "  policy mock (`policy_model`): 4 calls, 2,000 input (80 cached) and 40 output tokens, cost 0.0123"
        in lines
    )


def test_the_line_of_all_agents_is_described_and_marks_name_their_agent() -> None:
    lines = printed(a_summary(replace(AGENT, agent="a"), replace(AGENT, agent="b", short_tasks={1: 2, 4: 3})))
    assert lines[4] == (
        "* without the tasks that have fewer than k rewards, counted for each agent: 2 of 240 at k = 1, 12 of 240 at "
        "k = 4"
    )
    (about,) = (line for line in lines if line.startswith("overall: "))
    assert (
        about == "overall: counts are of all agents; the other figures are the means of those of the agents"
    )
    assert not [line for line in printed(a_summary(AGENT)) if line.startswith("overall")]
