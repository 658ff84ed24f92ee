"""Rewards beside the labels of a policy's rollouts: error rates that corrections of noisy rewards can use, and kappa.

    agreement = LabelAgreement.read(rows, "is_correct")
    agreement.false_accepts, agreement.false_rejects      # rates, with intervals by task
    agreement.kappa                                        # and its interval

A label says whether an answer is right, and comes from a person or from a better verifier. Rates of rollouts are those
of the policy that made them: on answers of another policy a verifier errs otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym.audit.card import Rate, measure_rate
from nemo_gym.audit.outcomes import ProbeOutcome, Right, judge
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params, read_verifier_metadata
from nemo_gym.rows.verdict import is_scored, read_reward

LABELLED = "labelled rollout"


@dataclass(frozen=True, slots=True)
class LabelAgreement:
    """Verdicts on rollouts whose right verdict is known."""

    key: str
    outcomes: Sequence[ProbeOutcome]
    unlabelled: int = 0
    """Scored rows without the label."""

    @classmethod
    def read(cls, rows: Iterable[AnyRow], key: str) -> LabelAgreement:
        """Read the label `key` of scored rows, or of their `verifier_metadata`.

        Raises `ConfigError` if no row has it, or if one has a label that is neither true nor false.
        """
        outcomes = []
        unlabelled = 0
        for row in rows:
            reward = read_reward(row)
            if not is_scored(row) or reward is None:
                continue
            label = _read_label(row, key)
            if label is None:
                unlabelled += 1
                continue
            right = Right.ACCEPT if label else Right.REJECT
            task = dump_json(read_params(row).get("input")).decode()
            outcomes.append(ProbeOutcome(task, LABELLED, right, judge(right, reward), reward))
        if not outcomes:
            raise ConfigError(
                f"label: no scored row has `{key}`",
                code="no_label",
                remedy="Name a member of the rows, or of their `verifier_metadata`, that is true for a right answer.",
            )
        return cls(key, outcomes, unlabelled)

    @property
    def false_accepts(self) -> Rate:
        """How often an answer that is labelled wrong got the best reward."""
        return measure_rate(outcome for outcome in self.outcomes if outcome.right is Right.REJECT)

    @property
    def false_rejects(self) -> Rate:
        """How often an answer that is labelled right got less."""
        return measure_rate(outcome for outcome in self.outcomes if outcome.right is Right.ACCEPT)

    @property
    def kappa(self) -> tuple[float, float, float] | None:
        """Cohen's kappa (1960) with its 95 % interval; None where label or verdict never differs.

        The interval is that of the share of agreement, exact for tasks as trials, with the chance of agreement held
        fixed: kappa = (agreement - chance) / (1 - chance).
        """
        errors = measure_rate(self.outcomes)
        right = [outcome.right is Right.ACCEPT for outcome in self.outcomes]
        accepted = [_is_accepted(outcome) for outcome in self.outcomes]
        of_right, of_accepted = sum(right) / len(right), sum(accepted) / len(accepted)
        chance = of_right * of_accepted + (1 - of_right) * (1 - of_accepted)
        if chance == 1:
            return None
        low, high = errors.interval
        value, least, most = ((1 - each - chance) / (1 - chance) for each in (errors.value, high, low))
        return value, least, most

    def as_json(self) -> dict[str, Any]:
        kappa = self.kappa
        return {
            "label": self.key, "rollouts": len(self.outcomes), "unlabelled": self.unlabelled,
            "false_accepts": self.false_accepts.as_json(), "false_rejects": self.false_rejects.as_json(),
            "kappa": None if kappa is None else {"value": kappa[0], "interval_95": [kappa[1], kappa[2]]},
        }  # fmt: skip

    def write_text(self) -> Iterator[str]:
        """Yield lines for a terminal."""
        for name, rate in (("false accepts", self.false_accepts), ("false rejects", self.false_rejects)):
            low, high = rate.interval
            yield (
                f"{name} by the label `{self.key}`: {rate.wrong} of {rate.probes} rollouts of {rate.tasks} tasks, "
                f"{rate.value:.2%} ({low:.2%} to {high:.2%})"
            )
        if kappa := self.kappa:
            yield f"agreement with the label: kappa {kappa[0]:.3f} ({kappa[1]:.3f} to {kappa[2]:.3f})"
        if self.unlabelled:
            yield f"{self.unlabelled} scored rollouts have no label"
        yield "These are rates of this policy's rollouts: corrections of noisy rewards can use them."


def _is_accepted(outcome: ProbeOutcome) -> bool:
    return (outcome.conclusion.value == "right") == (outcome.right is Right.ACCEPT)


def _read_label(row: AnyRow, key: str) -> bool | None:
    for place in (row, read_verifier_metadata(row)):
        if key in place and place[key] is not None:
            if place[key] not in (True, False):
                raise ConfigError(
                    f"label: `{key}` is {place[key]!r:.80}",
                    code="no_label",
                    remedy="A label is true for a right answer, and false for a wrong one.",
                )
            return bool(place[key])
    return None
