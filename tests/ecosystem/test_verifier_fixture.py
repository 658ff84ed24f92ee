from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from nemo_gym.ecosystem.verifier_fixture import (
    VerifierFixture,
    VerifierFixtureError,
    VerifierFixtureResult,
    exercise_verifier_fixture,
    load_verifier_fixture,
)


class Answer(BaseModel):
    answer: str
    draws: int = 0


class Verifier:
    """Scores the answer; `draws` simulates a random number generator without a seed."""

    drawn = 0

    async def verify(self, body: Answer) -> dict[str, float]:
        Verifier.drawn += body.draws
        return {"reward": float(body.answer == "4") / (1 + Verifier.drawn)}


CASES: list[dict[str, Any]] = [
    {"name": "right", "kind": "full_reward", "request": {"answer": "4"}, "expected_reward": 1.0},
    {"name": "wrong", "kind": "zero_reward", "request": {"answer": "5"}, "expected_reward": 0.0},
    {"name": "empty", "kind": "malformed", "request": {}, "expected_error": "answer"},
]
AGAIN = {"name": "again", "kind": "determinism", "request": {"answer": "4"}, "expected_reward": 1.0}


def fixture_of(path: Path, *cases: dict[str, Any], **options: Any) -> VerifierFixture:
    file = path / "verifier_cases.jsonl"
    file.write_text("\n".join(map(json.dumps, cases)))
    return VerifierFixture(Verifier, Answer, file, **options)


async def run(fixture: VerifierFixture, **options: Any) -> tuple[VerifierFixtureResult, ...]:
    given: dict[str, Any] = {"reward_range": (0, 1), "determinism": "unknown", **options}
    return await exercise_verifier_fixture(fixture, **given)


async def test_every_case_is_run_on_a_fresh_server(tmp_path: Path) -> None:
    results = await run(fixture_of(tmp_path, *CASES))
    assert [(each.kind, each.observed_rewards) for each in results] == [
        ("full_reward", (1.0,)),
        ("zero_reward", (0.0,)),
        ("malformed", ()),
    ]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({**CASES[0], "request": {"answer": "5"}}, "the reward is 0.0 and not 1.0"),
        ({**CASES[2], "expected_error": "colour"}, "does not contain 'colour'"),
        ({**CASES[2], "request": {"answer": "4"}}, "no error was raised"),
        ({**CASES[0], "request": {}}, "the verifier failed"),
    ],
)
async def test_a_verifier_that_differs_is_an_error(
    tmp_path: Path, case: dict[str, Any], message: str
) -> None:
    with pytest.raises(VerifierFixtureError, match=message):
        await run(fixture_of(tmp_path, case, *CASES))


async def test_a_reward_outside_the_range_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VerifierFixtureError, match="outside the range"):
        await run(fixture_of(tmp_path, *CASES), reward_range=(0, 0.5))


async def test_a_lower_reward_can_be_the_better_one(tmp_path: Path) -> None:
    swapped = [{**CASES[0], "kind": "zero_reward"}, {**CASES[1], "kind": "full_reward"}, CASES[2]]
    assert len(await run(fixture_of(tmp_path, *swapped), higher_is_better=False)) == 3


async def test_all_kinds_of_cases_are_needed(tmp_path: Path) -> None:
    with pytest.raises(VerifierFixtureError, match="no case of kind malformed"):
        await run(fixture_of(tmp_path, *CASES[:2]))


async def test_a_seeded_verifier_gives_the_same_reward_twice(tmp_path: Path) -> None:
    def reseed(server: Verifier, request: Answer) -> None:
        Verifier.drawn = 0

    results = await run(fixture_of(tmp_path, *CASES, AGAIN, reseed=reseed), determinism="seeded")
    assert results[-1].observed_rewards == (1.0, 1.0)
    drifting = {**AGAIN, "request": {"answer": "4", "draws": 1}}
    fixture = fixture_of(tmp_path, *CASES, drifting, reseed=lambda server, request: None)
    try:
        with pytest.raises(VerifierFixtureError, match="the reward is"):
            await run(fixture, determinism="seeded")
    finally:
        Verifier.drawn = 0


async def test_a_seeded_verifier_needs_reseed(tmp_path: Path) -> None:
    with pytest.raises(VerifierFixtureError, match="reseed"):
        await run(fixture_of(tmp_path, *CASES, AGAIN), determinism="seeded")
    assert len(await run(fixture_of(tmp_path, *CASES, AGAIN), determinism="stochastic")) == 3


async def test_another_call_of_the_verifier_can_be_given(tmp_path: Path) -> None:
    fixture = fixture_of(tmp_path, *CASES, invoke=lambda server, request: float(request.answer == "4"))
    assert (await run(fixture))[0].observed_rewards == (1.0,)


async def test_expected_rewards_are_updated_in_the_file(tmp_path: Path) -> None:
    fixture = fixture_of(tmp_path, {**CASES[0], "expected_reward": 0.5}, *CASES[1:])
    await run(fixture, update_expected=True)
    assert [case.expected_reward for case in load_verifier_fixture(fixture.cases_path)] == [1.0, 0.0, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "contains no cases"),
        ("{", "not valid"),
        (json.dumps({**CASES[0], "expected_reward": None}), "expected_reward"),
        (json.dumps({**CASES[2], "expected_reward": 1.0}), "expected_error"),
    ],
)
def test_an_invalid_file_is_an_error(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(line)
    with pytest.raises(VerifierFixtureError, match=message):
        load_verifier_fixture(file)
    with pytest.raises(VerifierFixtureError, match="cannot be read"):
        load_verifier_fixture(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    "options", [{"reward_range": (1, 0)}, {"reward_range": (0,)}, {"determinism": "perhaps"}]
)
async def test_invalid_options_are_errors(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(VerifierFixtureError, match="must be"):
        await run(fixture_of(tmp_path, *CASES), **options)
