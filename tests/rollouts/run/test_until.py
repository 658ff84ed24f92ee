"""Runs that stop when they know enough: draws, resumes, and unknown rewards."""

from __future__ import annotations

import random
import subprocess
import sys
from math import sqrt
from pathlib import Path
from statistics import median

import orjson
import pytest

from nemo_gym import clock
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rollouts.run.until_estimate import UntilEstimate, describe_closing
from tests.rollouts.doubles import AGENT, read_rows
from tests.rollouts.run.until_runs import OTHER, RandomAgents, read_draws, run_until

MEANS = [random.Random(7).random() for _ in range(20)]
TRUTH = sum(MEANS) / len(MEANS)
PAIR = f"{AGENT} differs from {OTHER}"


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def drawn_in(folder: Path) -> set[tuple[int, int]]:
    return {(draw["unit"], draw["repeat"]) for draw in read_draws(folder)}


def estimate_of(summary: CollectSummary) -> UntilEstimate:
    assert summary.estimate is not None
    return summary.estimate


async def test_a_run_stops_when_its_interval_is_narrow_enough(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS})
    summary = await run_until(tmp_path, agents, 20, until="±6%")
    estimate = estimate_of(summary)
    assert estimate.is_reached
    assert estimate.high - estimate.low <= 0.12
    assert estimate.low <= TRUTH <= estimate.high
    assert (summary.exit_code, summary.end, summary.missing) == (0, "complete", 0)
    assert set(agents.attempts.values()) == {1}
    rows = read_rows(tmp_path / "out.jsonl")
    assert len(rows) == len(agents.attempts) == estimate.drawn == len(read_draws(tmp_path))
    assert len(read_rows(tmp_path / "out_materialized_inputs.jsonl")) == len(rows)
    (agent,) = summary.agents
    assert (agent.mean_reward, agent.rollouts, agent.missing) == (estimate.mean, len(rows), 0)
    assert orjson.loads((tmp_path / "out_estimate.json").read_bytes())["mean"] == estimate.mean


async def test_uncertain_tasks_get_more_rollouts_than_sure_ones(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: [0.0, 1.0, 0.5, 0.5] * 5})
    await run_until(tmp_path, agents, 20, until="±2%")
    drawn = [0] * 20
    for draw in read_draws(tmp_path):
        drawn[draw["unit"]] += 1
    sure = sum(drawn[task] for task in range(20) if task % 4 < 2)
    assert 1.4 * sure < sum(drawn) - sure


async def test_a_stopped_run_goes_on_with_its_draws(tmp_path: Path) -> None:
    first = await run_until(tmp_path, RandomAgents({AGENT: MEANS}, 1, stop_after=300), 20, until="±5%")
    assert first.stop is not None
    before = read_draws(tmp_path)
    agents = RandomAgents({AGENT: MEANS}, 2)
    summary = await run_until(tmp_path, agents, 20, until="±5%", resume=True)
    assert estimate_of(summary).is_reached
    assert read_draws(tmp_path)[: len(before)] == before
    rows = read_rows(tmp_path / "out.jsonl")
    assert len({(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows}) == len(rows)
    assert len(rows) == len(read_draws(tmp_path)) == summary.counters.planned
    assert summary.exit_code == 0


async def test_rollouts_that_a_kill_has_lost_are_not_attempted_again(tmp_path: Path) -> None:
    """Those in flight are rather the wrong ones, so new attempts at them would make the mean too high."""
    before: set[tuple[int, int]] = set()
    for start, stop_after in enumerate((60, 70, None)):
        agents = RandomAgents({AGENT: MEANS}, start, stop_after=stop_after, is_killed=True)
        summary = await run_until(tmp_path, agents, 20, until="±7%", resume=start > 0)
        assert not before & agents.attempts.keys()
        before |= agents.attempts.keys()
    estimate = estimate_of(summary)
    assert estimate.is_reached
    assert estimate.unknown == 2  # one of each kill
    assert estimate.voided > 0
    assert (summary.exit_code, summary.missing) == (0, 0)
    assert estimate.drawn == len(before)
    (agent,) = summary.agents
    rows = read_rows(tmp_path / "out.jsonl")
    assert (agent.rollouts, agent.missing) == (len(rows), 0)
    (metrics,) = orjson.loads((tmp_path / "out_aggregate_metrics.json").read_bytes())
    assert metrics["agent_metrics"]["coverage/reward"] == 100
    assert f"{estimate.voided} draws do not count" in "\n".join(describe_closing(estimate))
    again = await run_until(tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±7%", resume=True)
    assert estimate_of(again) == estimate


async def test_a_kill_of_a_pair_loses_draws_of_both(tmp_path: Path) -> None:
    better = [min(1.0, mean + 0.3) for mean in MEANS]
    before: set[tuple[int, int]] = set()
    for start, stop_after in enumerate((40, None)):
        means = {AGENT: better, OTHER: MEANS}
        agents = RandomAgents(means, start, stop_after=stop_after, is_killed=True)
        summary = await run_until(tmp_path, agents, 20, until=PAIR, resume=start > 0)
        assert not before & agents.attempts.keys()
        before |= agents.attempts.keys()
    assert estimate_of(summary).is_reached
    assert estimate_of(summary).unknown >= 1
    assert summary.missing == 0


async def test_killed_rollouts_of_tasks_like_these_are_lost_too(tmp_path: Path) -> None:
    before: set[tuple[int, int]] = set()
    for start, stop_after in enumerate((60, None)):
        agents = RandomAgents({AGENT: [0.5] * 600}, start, stop_after=stop_after, is_killed=True)
        summary = await run_until(
            tmp_path, agents, 600, until="±8%", generalize=True, repeats=2, resume=start > 0
        )
        assert not before & agents.attempts.keys()
        before |= agents.attempts.keys()
    assert estimate_of(summary).is_reached
    assert summary.missing == 0


async def test_a_finished_run_that_is_resumed_draws_nothing(tmp_path: Path) -> None:
    first = await run_until(tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±8%")
    agents = RandomAgents({AGENT: MEANS})
    again = await run_until(tmp_path, agents, 20, until="±8%", resume=True)
    assert not agents.attempts
    assert estimate_of(again) == estimate_of(first)


async def test_a_resume_may_ask_for_more(tmp_path: Path) -> None:
    await run_until(tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±10%")
    again = await run_until(tmp_path, RandomAgents({AGENT: MEANS}, 4), 20, until="±7%", resume=True)
    assert estimate_of(again).is_reached
    assert estimate_of(again).half_width <= 0.07


async def test_draws_of_another_kind_are_not_continued(tmp_path: Path) -> None:
    await run_until(tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±12%", max_rollouts=64)
    with pytest.raises(ConfigError, match=r"reward_range: \[0.0, 1.0\] -> \[0.0, 2.0\]"):
        await run_until(
            tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±12%", resume=True, reward_range=(0.0, 2.0)
        )


async def test_rows_of_a_run_without_an_aim_help_to_predict_and_do_not_count(tmp_path: Path) -> None:
    await run_until(tmp_path, RandomAgents({AGENT: MEANS}), 20, repeats=3)
    summary = await run_until(tmp_path, RandomAgents({AGENT: MEANS}, 5), 20, until="±10%", resume=True)
    estimate = estimate_of(summary)
    assert len(read_rows(tmp_path / "out.jsonl")) == 60 + estimate.drawn == summary.counters.planned
    assert min(draw["repeat"] for draw in read_draws(tmp_path)) == 3


async def test_a_ceiling_ends_a_run_and_says_so(tmp_path: Path) -> None:
    summary = await run_until(tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±3%", max_rollouts=200)
    assert (estimate_of(summary).drawn, estimate_of(summary).is_reached) == (200, False)
    assert (summary.exit_code, summary.end, summary.missing) == (3, "partial", 0)


async def test_a_ceiling_of_tokens_is_exact_to_what_was_in_flight(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS}, tokens=100)
    summary = await run_until(tmp_path, agents, 20, until="±3%", max_total_tokens=9000)
    estimate = estimate_of(summary)
    assert 9000 <= estimate.tokens == sum(agents.spent) <= 9000 + 16 * 100
    assert (estimate.rollouts, estimate.is_reached) == (estimate.drawn, False)
    assert estimate.low <= TRUTH <= estimate.high
    assert (summary.exit_code, summary.end) == (3, "partial")
    start = orjson.loads((tmp_path / "out_run.json").read_bytes())["starts"][0]
    assert (start["settings"]["until"], start["settings"]["max_total_tokens"]) == ("±3%", 9000)
    assert start["until"]["ceiling"] == "+max_total_tokens=9000"
    assert start["until"]["tokens"] == estimate.tokens
    text = "\n".join(describe_closing(estimate))
    assert f"+max_total_tokens=9000 ended the run; rollouts in flight took {estimate.tokens - 9000:,}" in text
    assert f"{estimate.drawn:,} rollouts, {estimate.tokens:,} tokens" in text


async def test_a_resumed_run_has_the_tokens_of_all_of_its_attempts(tmp_path: Path) -> None:
    starts = [RandomAgents({AGENT: MEANS}, seed, tokens=100, lost=0.5) for seed in (1, 2, 3)]
    ceilings = (3000, 3000, 6000)
    estimates = [
        estimate_of(
            await run_until(
                tmp_path, agents, 20, until="±3%", resume=bool(number), max_total_tokens=ceilings[number]
            )
        )
        for number, agents in enumerate(starts)
    ]
    spent = [sum(agents.spent) for agents in starts]
    assert [estimate.tokens for estimate in estimates] == [sum(spent[: place + 1]) for place in range(3)]
    assert all(set(attempted) <= drawn_in(tmp_path) for attempted in (agents.attempts for agents in starts))
    assert 0 < len(starts[1].attempts) < 30  # those that had failed finally
    assert 6000 <= estimates[2].tokens <= 6000 + 16 * 3 * 100  # each in flight has three attempts


async def test_rows_of_a_run_without_an_aim_spend_nothing_of_the_ceiling(tmp_path: Path) -> None:
    await run_until(tmp_path, RandomAgents({AGENT: MEANS}, tokens=100), 20, repeats=3)
    agents = RandomAgents({AGENT: MEANS}, 5, tokens=100)
    summary = await run_until(tmp_path, agents, 20, until="±5%", resume=True, max_total_tokens=2000)
    assert estimate_of(summary).tokens == sum(agents.spent) >= 2000


async def test_an_aim_before_the_ceiling_is_reached_as_without_one(tmp_path: Path) -> None:
    estimates = []
    for name, ceiling in (("with", 1_000_000), ("without", None)):
        (folder := tmp_path / name).mkdir()
        agents = RandomAgents({AGENT: MEANS}, tokens=100)
        summary = await run_until(folder, agents, 20, until="±8%", max_total_tokens=ceiling)
        estimates.append(estimate_of(summary))
        assert estimates[-1].tokens == sum(agents.spent)
    assert [(each.is_reached, each.ceiling) for each in estimates] == [(True, None)] * 2


async def test_a_ceiling_without_counts_ends_the_run(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS})
    summary = await run_until(tmp_path, agents, 20, until="±3%", max_total_tokens=9000)
    assert summary.stop is not None
    assert summary.stop.code == "tokens_unknown"
    assert len(agents.attempts) <= 2 * 16
    assert summary.exit_code == 1


async def test_other_ceilings_are_named_too(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS})
    estimate = estimate_of(await run_until(tmp_path, agents, 20, until="±3%", max_rollouts=150))
    assert estimate.ceiling == "+max_rollouts=150"
    assert (estimate.rollouts, estimate.tokens, estimate.uncounted) == (150, 0, 150)


async def test_a_pair_is_told_apart(tmp_path: Path) -> None:
    better = [min(1.0, mean + 0.25) for mean in MEANS]
    agents = RandomAgents({AGENT: better, OTHER: MEANS})
    estimate = estimate_of(await run_until(tmp_path, agents, 20, until=PAIR))
    assert estimate.is_reached
    assert 0 <= estimate.low <= sum(better) / 20 - TRUTH <= estimate.high
    by_agent = [row["agent_ref"]["name"] for row in read_rows(tmp_path / "out.jsonl")]
    assert by_agent.count(AGENT) == by_agent.count(OTHER) == estimate.drawn / 2


async def test_a_pair_that_does_not_differ_ends_at_its_ceiling(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS, OTHER: MEANS})
    summary = await run_until(tmp_path, agents, 20, max_rollouts=400, until=PAIR)
    estimate = estimate_of(summary)
    assert not estimate.is_reached
    assert estimate.low < 0 < estimate.high
    assert summary.exit_code == 3


async def test_the_mean_of_all_tasks_like_these_takes_each_task_once(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: [0.5] * 600})
    summary = await run_until(tmp_path, agents, 600, until="±6%", generalize=True, repeats=2)
    estimate = estimate_of(summary)
    assert estimate.is_reached
    drawn = [draw["unit"] for draw in read_draws(tmp_path)]
    assert len(set(drawn)) == len(drawn)
    assert estimate.drawn == 2 * len(drawn)


async def test_a_rollout_without_a_reward_may_have_had_any(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS}, fails=0.1)
    summary = await run_until(tmp_path, agents, 20, until="±6%", max_rollouts=1500)
    estimate = estimate_of(summary)
    assert estimate.unknown > 20
    assert not estimate.is_reached
    assert estimate.low <= TRUTH <= estimate.high


async def test_rollouts_that_failed_are_attempted_again(tmp_path: Path) -> None:
    await run_until(tmp_path, RandomAgents({AGENT: MEANS}, fails=0.2), 20, until="±8%", max_rollouts=200)
    agents = RandomAgents({AGENT: MEANS}, 3)
    again = await run_until(tmp_path, agents, 20, until="±8%", max_rollouts=200, resume=True)
    assert 0 < len(agents.attempts) < 100
    assert estimate_of(again).unknown == 0


async def test_a_reward_outside_its_range_ends_the_run(tmp_path: Path) -> None:
    summary = await run_until(
        tmp_path, RandomAgents({AGENT: MEANS}), 20, until="±0.05", reward_range=(0.0, 0.5)
    )
    assert summary.stop is not None
    assert summary.stop.code == "reward_out_of_range"
    assert "+reward_range=[0,1]" in str(summary.stop.remedy)
    assert summary.exit_code == 1


async def test_a_run_without_an_aim_has_no_draws(tmp_path: Path) -> None:
    agents = RandomAgents({AGENT: MEANS})
    summary = await run_until(tmp_path, agents, 20, repeats=2)
    assert summary.estimate is None
    assert len(agents.attempts) == 40
    assert not {"out_draws.jsonl", "out_estimate.json"} & names_in(tmp_path)


def test_a_run_without_an_aim_imports_none_of_this() -> None:
    code = (
        "import sys, nemo_gym.rollouts.run.collect, nemo_gym.cli.collect_rollouts, nemo_gym.rollouts.run.closing\n"
        "print([name for name in sys.modules if 'nemo_gym.statistics' in name or name.endswith('run.until')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_tasks_without_a_draw_are_counted(tmp_path: Path) -> None:
    estimate = estimate_of(await run_until(tmp_path, RandomAgents({AGENT: [0.5] * 300}), 300, until="±20%"))
    drawn = {draw["unit"] for draw in read_draws(tmp_path)}
    assert estimate.undrawn == 300 - len(drawn) > 0


class Seeded(clock.Sources):
    def rng(self) -> random.Random:
        return random.Random(5)


async def test_an_interval_costs_what_the_documentation_says(tmp_path: Path) -> None:
    """Its width over that of a fixed design with as many rollouts: 1.96 standard errors to either side."""
    rng = random.Random(1)
    means = [rng.random() for _ in range(60)]
    within = sum(mean * (1 - mean) for mean in means) / 60

    async def measure(name: str, until: str, ceiling: int | None) -> float:
        (folder := tmp_path / name).mkdir()
        agents = RandomAgents({AGENT: means})
        estimate = estimate_of(await run_until(folder, agents, 60, until=until, max_rollouts=ceiling))
        return estimate.half_width / (1.96 * sqrt(within / estimate.rollouts))

    with clock.replaced_by(Seeded()):
        reached = [await measure(f"reached_{number}", "±4%", None) for number in range(3)]
        assert 1.1 < median(reached) < 1.8
        assert 2.2 < await measure("ended", "±3%", 200) < 4.5
