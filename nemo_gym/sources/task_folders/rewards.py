"""The rewards that a verifier wrote, and those of a task with steps."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from nemo_gym.failures import VerifierError
from nemo_gym.sources.task_folders.settings import RewardStrategy

JSON_FILE: Final = "/logs/verifier/reward.json"
TEXT_FILE: Final = "/logs/verifier/reward.txt"
MAIN_REWARD: Final = "reward"
"""By convention, the name of the reward that counts."""

Rewards = Mapping[str, float]


def parse_rewards(found_json: bytes | None, found_text: bytes | None) -> dict[str, float]:
    """Return the rewards of the two files, of which the JSON file counts; None for a file that is missing.

    Raises VerifierError for a missing or empty file, and for anything but finite numbers: it is never a reward of 0.
    """
    if found_json is not None:
        return _parse_json(found_json)
    if found_text is not None:
        return {MAIN_REWARD: _parse_text(found_text)}
    raise _fail("no_reward_file", f"the verifier wrote neither {JSON_FILE} nor {TEXT_FILE}")


def _parse_json(content: bytes) -> dict[str, float]:
    if not content:
        raise _fail("empty_reward_file", f"{JSON_FILE} is empty")
    try:
        rewards = json.loads(content)
    except ValueError as error:
        raise _fail("bad_reward", f"{JSON_FILE} is no JSON: {error}") from error
    if not isinstance(rewards, dict):
        raise _fail("bad_reward", f"{JSON_FILE} is no object of rewards, but {str(rewards)[:100]!r}")
    return {str(name): _check_number(value, f"{name!r} in {JSON_FILE}") for name, value in rewards.items()}


def _parse_text(content: bytes) -> float:
    if not content:
        raise _fail("empty_reward_file", f"{TEXT_FILE} is empty")
    try:
        return _check_number(float(content.decode()), TEXT_FILE)
    except ValueError as error:
        raise _fail("bad_reward", f"{TEXT_FILE} is no number: {content[:100]!r}") from error


def _check_number(value: object, where: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _fail("bad_reward", f"{where} is no finite number, but {str(value)[:100]!r}")
    return number


def find_main_reward(rewards: Rewards, key: str = MAIN_REWARD) -> float:
    """Return the reward that counts: that under `key`, or the only one. Raises VerifierError if none is."""
    if key in rewards:
        return rewards[key]
    if len(rewards) == 1:
        return next(iter(rewards.values()))
    known = ", ".join(rewards) or "none"
    raise _fail("bad_reward", f"no reward is named {key!r}; the rewards are: {known}")


def find_shortfall(rewards: Rewards | None, least: float | Mapping[str, float] | None) -> str | None:
    """Return the reason why the rewards of a step stop the task; None if they do not."""
    if least is None:
        return None
    thresholds = least if isinstance(least, Mapping) else {MAIN_REWARD: least}
    for name, threshold in thresholds.items():
        reward = (rewards or {}).get(name, -math.inf)
        if reward < threshold:
            return f"{name} is {reward:g}, below min_reward {threshold:g}"
    return None


def combine_rewards(
    steps: Sequence[Rewards | None], strategy: RewardStrategy | None
) -> dict[str, float] | None:
    """Return the rewards of a task from those of its steps, of which None has no verdict; None without any verdict."""
    if strategy is RewardStrategy.FINAL:
        return dict(steps[-1]) if steps and steps[-1] is not None else None
    verdicts = [rewards for rewards in steps if rewards is not None]
    names = {name: None for rewards in verdicts for name in rewards}
    if not names:
        return None
    return {name: sum(rewards.get(name, 0) for rewards in verdicts) / len(verdicts) for name in names}


def _fail(code: str, why: str) -> VerifierError:
    remedy = "A test writes one finite number to reward.txt, or an object of finite numbers to reward.json."
    return VerifierError(f"The task gave no reward: {why}.", code=code, remedy=remedy)
