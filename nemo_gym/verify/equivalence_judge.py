"""A judge that decides whether two answers are equivalent, asked in both orders because of position bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_gym.inputs.prompts import PromptConfig
from nemo_gym.transport.server_client import ServerClient
from nemo_gym.verify.judge import Judge, JudgeEvaluation, Judgement, label_reader

__all__ = ["DIFFERENT_LABEL", "EQUAL_LABEL", "Comparison", "EquivalenceJudge"]

EQUAL_LABEL = "[[A=B]]"
DIFFERENT_LABEL = "[[A!=B]]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The judge's comparison of two answers."""

    is_equal_first: bool
    """The verdict with the expected answer first."""
    is_equal_swapped: bool | None
    """The verdict in the other order; None when it was not asked."""
    evaluations: tuple[JudgeEvaluation, ...]

    @property
    def is_equal(self) -> bool:
        """True if every verdict is "equal"."""
        return self.is_equal_first and self.is_equal_swapped is not False


@dataclass(frozen=True, slots=True)
class EquivalenceJudge:
    """Compares an answer with the expected one."""

    judge: Judge
    prompt: PromptConfig
    first_field: str
    """The prompt field that holds the expected answer, and the policy's answer in the swapped order."""
    second_field: str
    equal_label: str = EQUAL_LABEL
    different_label: str = DIFFERENT_LABEL
    check_twice_swap: bool = True

    async def compare(
        self, client: ServerClient, *, expected: str, answer: str, fields: Mapping[str, str]
    ) -> Comparison:
        """Ask the judge in one or both orders; a first verdict "different" is final. Raises JudgeError."""
        first = await self._ask(client, expected, answer, fields)
        if not first.value or not self.check_twice_swap:
            return Comparison(first.value, None, first.evaluations)
        swapped = await self._ask(client, answer, expected, fields)
        return Comparison(True, swapped.value, (*first.evaluations, *swapped.evaluations))

    async def _ask(
        self, client: ServerClient, first: str, second: str, fields: Mapping[str, str]
    ) -> Judgement[bool]:
        # Both answers are fenced, so that the prompt does not reveal which one is the policy's.
        return await self.judge.ask(
            client,
            self.prompt,
            fields=fields,
            untrusted={self.first_field: first, self.second_field: second},
            read=label_reader({self.equal_label: True, self.different_label: False}),
        )
