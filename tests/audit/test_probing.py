from __future__ import annotations

from nemo_gym.audit.environment import open_prober
from nemo_gym.audit.probing import Prober, _read_verdict, build_answer
from nemo_gym.rows.parts import read_output
from tests.audit.planted_verifiers import NUMBERS, is_number, open_gym


async def test_an_attempt_gets_the_reward_of_the_real_route_over_http() -> None:
    gym, caller = open_gym(is_number)
    async with gym.running():
        prober = await open_prober(caller, "planted")
        right = await prober.attempt(NUMBERS[1], "\\boxed{73}")
        wrong = await prober.attempt(NUMBERS[1], "\\boxed{74}")
    assert (right.reward, wrong.reward) == (1.0, 0.0)
    assert right.seconds > 0


async def test_a_verifier_that_raises_gives_a_failure_and_no_reward() -> None:
    gym, caller = open_gym(lambda text, row: 1 / 0 > 0)
    async with gym.running():
        verdict = await Prober(caller, "planted").attempt(NUMBERS[0], "x")
    assert verdict.reward is None
    assert "/verify answered 500" in verdict.failure


async def test_a_server_that_is_gone_gives_a_failure() -> None:
    _, caller = open_gym(is_number)
    assert (await Prober(caller, "other").attempt(NUMBERS[0], "x")).reward is None


def test_the_answer_has_the_calls_before_the_words() -> None:
    items = [{"type": "function_call", "name": "look"}]
    answer = {"response": build_answer(NUMBERS[0], "Done.", items)}
    assert [item["type"] for item in read_output(answer)] == ["function_call", "message"]


def test_a_reward_beside_the_failure_of_a_judge_is_no_verdict() -> None:
    failed = _read_verdict({"reward": 0.0, "_ng_failure_class": "judge"}, 0.1)
    assert (failed.reward, failed.failure) == (None, "failed: judge")
    assert _read_verdict({"reward": 0.0}, 0.1).reward == 0.0
