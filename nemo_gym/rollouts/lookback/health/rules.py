"""The list of all rules, with their severities and words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from nemo_gym.rollouts.lookback.health import row_rules, run_rules
from nemo_gym.rollouts.lookback.health.attempts import Attempts
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rollouts.lookback.health.run_rules import Hit


class Severity(StrEnum):
    """How sure a rule is."""

    FAULT = "fault"
    """The data is broken."""
    SIGN = "sign"
    """A person should look at it. It may be right."""


@dataclass(frozen=True, slots=True)
class HealthRule:
    """A rule of single rows, of the whole run, or of both. A rule without functions is one of the file itself."""

    name: str
    severity: Severity
    words: str
    """The rule in one sentence."""
    in_row: Callable[[CheckedRow], str | None] | None = None
    in_run: Callable[[Attempts], Iterator[Hit]] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A place where a rule found something."""

    rule: str
    text: str
    line: int | None = None
    """The number of the row's line, from 1; None for a whole group or run."""
    task: int | None = None
    repeat: int | None = None


DAMAGED_ROW = HealthRule(
    "damaged_row", Severity.FAULT, "A line is not a row: no JSON object, or an index that is no integer."
)
_RULES = (
    DAMAGED_ROW,
    HealthRule("bad_reward", Severity.FAULT, "A row has no finite reward.", row_rules.bad_reward),
    HealthRule(
        "empty_turn", Severity.FAULT, "A model turn has neither text nor a call.", row_rules.empty_turn
    ),
    HealthRule(
        "duplicate_rollout",
        Severity.FAULT,
        "Several rows have the same task and repeat.",
        in_run=run_rules.duplicate_rollout,
    ),
    HealthRule(
        "missing_tokens",
        Severity.FAULT,
        "Rows or turns lack the tokens that others of the run have, or are masked.",
        row_rules.check_missing_tokens,
        run_rules.rows_without_tokens,
    ),
    HealthRule(
        "certain_logprobs",
        Severity.FAULT,
        "All log-probabilities of a rollout of 32 tokens or more are near 0.",
        row_rules.certain_logprobs,
    ),
    HealthRule(
        "tool_raised",
        Severity.FAULT,
        "The code of a tool raised, so the attempt was not one at the task.",
        row_rules.tool_raised,
    ),
    HealthRule(
        "broke_verifier",
        Severity.SIGN,
        "The reward is 0 because `verify` raised, crashed or exceeded a limit on the answer.",
        row_rules.broke_verifier,
    ),
    HealthRule("truncated", Severity.SIGN, "A limit cut the rollout.", row_rules.check_truncated),
    HealthRule(
        "tool_failed",
        Severity.SIGN,
        "A tool has no route, refuses arguments that fit its declaration, was out of reach, or had no effect.",
        row_rules.tool_failed,
    ),
    HealthRule(
        "repetition",
        Severity.SIGN,
        "A text compresses below 8 %, or 10 successive calls are the same.",
        row_rules.repetition,
    ),
    HealthRule(
        "identical_output",
        Severity.SIGN,
        "Rollouts have the same output of 200 characters or more.",
        in_run=run_rules.identical_output,
    ),
    HealthRule(
        "no_variance",
        Severity.SIGN,
        "All attempts of an agent at a task have the same reward, so a trainer learns nothing from them.",
        in_run=run_rules.no_variance,
    ),
    HealthRule(
        "only_zeros",
        Severity.SIGN,
        "All rewards of an agent are 0, so that its answers or its expected answers may have the wrong form.",
        in_run=run_rules.only_zeros,
    ),
    HealthRule(
        "reward_disagrees",
        Severity.SIGN,
        "The reward contradicts a Boolean field such as `correct` or `passed`.",
        row_rules.reward_disagrees,
    ),
    HealthRule(
        "answer_leaked",
        Severity.SIGN,
        "The prompt or a tool result contains the expected answer.",
        row_rules.answer_leaked,
    ),
    HealthRule(
        "verifier_touched",
        Severity.SIGN,
        "A tool call names a file of a verifier, such as `grader.py` or `reward.txt`.",
        row_rules.verifier_touched,
    ),
    HealthRule(
        "short_win",
        Severity.SIGN,
        "The best attempt of an agent at a task has less than a tenth of the median text.",
        in_run=run_rules.short_win,
    ),
    HealthRule(
        "length_reward",
        Severity.SIGN,
        "Longer outputs have higher rewards: a correlation above 0.5 within tasks.",
        in_run=run_rules.length_reward,
    ),
)
RULES: Mapping[str, HealthRule] = {rule.name: rule for rule in _RULES}
"""All rules by name, faults first."""
