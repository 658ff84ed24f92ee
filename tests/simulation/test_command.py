from __future__ import annotations

import json
import re

import pytest

from simulation import draw
from simulation.__main__ import main
from tests.simulation.planted_bugs import failure_scored_zero, window_too_wide

pytestmark = pytest.mark.long_file

SEED = next(seed for seed in range(100) if len(draw(seed).faults) >= 3)
_UNTIL_FOUND = ("+seeds=200", "+most_findings=1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    captured = capsys.readouterr()
    assert isinstance(raised.value.code, int)
    return raised.value.code, captured.out, captured.err


def test_seeds_that_violate_no_invariant_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "+seeds=3", "+first_seed=2")
    assert code == 0
    rollouts = sum(draw(seed).planned for seed in (2, 3, 4))
    assert printed.startswith(f"3 seeds: no invariant was violated. {rollouts} rollouts met ")


def test_a_violated_invariant_is_printed_with_the_fewest_faults_and_the_command_that_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with failure_scored_zero():
        code, printed, _ = run(capsys, *_UNTIL_FOUND)
    assert code == 1
    assert "  rewards are true: " in printed
    assert "minimal set of faults (1 of " in printed
    assert "replayed twice with the same trace" in printed
    assert re.match(r"\d+ seeds?: 1 violates an invariant\. ", printed.splitlines()[-1])


def test_what_a_finding_prints_as_its_command_shows_the_finding_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with failure_scored_zero():
        _, printed, _ = run(capsys, *_UNTIL_FOUND, "--json")
        (finding,) = json.loads(printed)["findings"]
        assert finding["replays_exactly"]
        command = finding["command"].replace("'", "").split()
        assert command[:3] == ["python", "-m", "simulation"]
        code, shown, _ = run(capsys, *command[3:])
    assert code == 1
    assert f"trace {finding['trace']}" in shown
    assert shown.splitlines()[-1].startswith(f"{finding['law']}: {finding['message']}")
    assert all(fault in shown for fault in finding["faults"])


def test_a_search_ends_with_the_findings_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with window_too_wide():
        code, printed, _ = run(capsys, "+seeds=50", "+most_findings=2", "+json=true")
    summary = json.loads(printed)
    assert code == 1
    assert len(summary["findings"]) == 2
    assert summary["seeds"] < 50


def test_one_seed_is_shown_with_everything_that_happens(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, f"+seed={SEED}")
    assert code == 0
    lines = printed.splitlines()
    faults = draw(SEED).faults
    assert lines[0].startswith(f"seed {SEED}: {draw(SEED).planned} rollouts")
    assert lines[1 : 1 + len(faults)] == [f"  {number}. {fault}" for number, fault in enumerate(faults)]
    assert lines[-1] == "no invariant was violated"
    assert "sent        agent /run #" in printed


def test_only_the_faults_that_are_kept_are_played(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, f"+seed={SEED}", "+keep=[1]", "--json")
    assert code == 0
    assert json.loads(printed)["faults"] == [f"1. {draw(SEED).faults[1]}"]
    _, printed, _ = run(capsys, f"+seed={SEED}", "+keep=[]", "--json")
    shown = json.loads(printed)
    assert shown["faults"] == []
    assert not any(" fault " in event or " died " in event for event in shown["events"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["+seeds=0"], "seeds must be greater than or equal to 1"),
        (["+seeds=many"], "seeds"),
        (["+sedes=3"], "Did you mean 'seeds'?"),
        (["+keep=[0]"], "+seed is missing"),
        ([f"+seed={SEED}", "+keep=[99]"], "fault 99 does not exist"),
        ([f"+seed={SEED}", "+keep=[-1]"], "fault -1 does not exist"),
        ([f"+seed={SEED}", "+seeds=5"], "+seed plays a single seed"),
    ],
)
def test_wrong_input_is_named(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, complaint = run(capsys, *arguments)
    assert code == 2
    assert says in complaint
    assert printed == ""
