from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from nemo_gym.audit.behaviour import (
    AGAIN,
    FORMER,
    REPLAYED,
    REVERSED,
    KnownVerdict,
    compare_again,
    find_difference,
    probe_behaviour,
    probe_former_sessions,
    probe_replays,
)
from nemo_gym.audit.gold_scripts import read_gold_scripts
from nemo_gym.audit.outcomes import Conclusion
from nemo_gym.audit.probing import Call, Prober
from nemo_gym.config.loading import load
from nemo_gym.launch.inline import inline
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from tests.audit.planted_verifiers import NUMBERS, is_number, open_gym
from tests.engines.attempts.durable_gym import ENVIRONMENTS

KNOWN = [
    KnownVerdict(f"t{at}", row, f"\\boxed{{{row['expected_answer']}}}", 1.0) for at, row in enumerate(NUMBERS)
]


async def test_a_steady_verifier_never_flips() -> None:
    gym, caller = open_gym(is_number)
    async with gym.running():
        outcomes = await probe_behaviour(Prober(caller, "planted"), KNOWN)
    counts = Counter(each.kind for each in outcomes)
    assert counts == {AGAIN: 80, REVERSED: 6, "16 at once": 16, "128 at once": 128}
    assert {each.conclusion for each in outcomes} == {"right"}


async def test_a_verifier_with_a_memory_flips() -> None:
    turns = itertools.count()
    gym, caller = open_gym(lambda text, row: is_number(text, row) and next(turns) != 5)
    async with gym.running():
        outcomes = await probe_behaviour(Prober(caller, "planted"), KNOWN)
    (flip,) = [each for each in outcomes if each.conclusion == "flip"]
    assert flip.reason == "the reward was 1 before"


async def test_the_answer_of_a_former_session_does_not_count() -> None:
    wrong = [KnownVerdict(each.task, each.row, "", 0.0) for each in KNOWN[:2]]
    said: list[str] = []

    def remembers(text: str, row: Mapping[str, Any]) -> bool:
        said.append(text or (said or [""])[-1])
        return is_number(said[-1], row)

    flips = []
    for verify in (is_number, remembers):
        gym, caller = open_gym(verify)
        async with gym.running():
            outcomes = await probe_former_sessions(Prober(caller, "planted"), [*KNOWN[:2], *wrong])
        assert [each.kind for each in outcomes] == [FORMER] * 4  # while it is open, and after it
        flips.append([each.conclusion for each in outcomes].count(Conclusion.FLIP))
    assert flips == [0, 4]


async def test_a_failure_is_no_flip() -> None:
    _, caller = open_gym(is_number)
    outcomes = await compare_again(Prober(caller, "other"), KNOWN[:1], "x")
    assert [each.conclusion for each in outcomes] == ["failed"]


@pytest.mark.parametrize(
    ("name", "conclusion"), [("workplace_assistant", "right"), ("code_repair", "undecided")]
)
async def test_an_environment_says_whether_its_tools_repeat_themselves(name: str, conclusion: str) -> None:
    environment = ENVIRONMENTS[name]
    gold = environment.folder / "data" / "example.jsonl"
    overrides = ["+policy_base_url=http://127.0.0.1:9", "+policy_api_key=none", "+policy_model_name=none"]
    files = [*map(str, environment.config_files), "responses_api_models/vllm_model/configs/vllm_model.yaml"]
    async with inline(load([f"+config_paths=[{','.join(files)}]", *overrides], env_path=None)) as gym:
        found = DiscoveredGym(gym.config, gym.token, gym.transport)
        outcomes = await probe_replays(
            Prober(found.caller(), name), environment.examples(), read_gold_scripts(gold)
        )
    assert len(outcomes) == min(4, len(environment.examples()))
    assert {each.conclusion for each in outcomes} <= {"right", conclusion}
    assert all(each.kind == REPLAYED for each in outcomes)
    for each in outcomes:  # two runs of tests may take the same time
        assert ("run_tests) differs at character" in each.reason) is (each.conclusion == "undecided")


def test_the_first_difference_is_named_with_both_texts() -> None:
    calls: list[Call] = [("look", {}), ("run_tests", {})]
    assert find_difference(calls, ["a", "in 0.010s"], ["a", "in 0.002s"]) == (
        "call 2 (run_tests) differs at character 6: 'in 0.010s', then 'in 0.002s'"
    )
    assert find_difference(calls, ["a", "b"], ["a", "b"]) == ""
