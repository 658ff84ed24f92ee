"""A judge that says whether two answers mean the same, asked in both orders because judges favour positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nemo_gym.config.prompts import PromptConfig
from nemo_gym.transport.server_client import ServerClient
from nemo_gym.verify.judge import Judge, JudgeEvaluation, label_reader

EQUAL_LABEL = "[[A=B]]"
DIFFERENT_LABEL = "[[A!=B]]"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the judge made of two answers."""

    is_equal_first: bool
    """Its verdict with the expected answer first."""
    is_equal_swapped: bool | None
    """Its verdict in the other order; None where that was not asked."""
    evaluations: tuple[JudgeEvaluation, ...]

    @property
    def is_equal(self) -> bool:
        """Whether it found them equal each time that it was asked."""
        return self.is_equal_first and self.is_equal_swapped is not False


@dataclass(frozen=True, slots=True)
class EquivalenceJudge:
    """Compares an answer with the expected one."""

    judge: Judge
    prompt: PromptConfig
    first_field: str
    """The field of the prompt that the expected answer fills, and the other one where the order is swapped."""
    second_field: str
    equal_label: str = EQUAL_LABEL
    different_label: str = DIFFERENT_LABEL
    check_twice_swap: bool = True

    async def compare(
        self, client: ServerClient, *, expected: str, answer: str, fields: Mapping[str, str]
    ) -> Comparison:
        """Ask whether both are equal; a first "different" settles it. Raises JudgeError."""
        is_equal_first, evaluations = await self._ask(client, expected, answer, fields)
        if not is_equal_first or not self.check_twice_swap:
            return Comparison(is_equal_first, None, evaluations)
        is_equal_swapped, more = await self._ask(client, answer, expected, fields)
        return Comparison(True, is_equal_swapped, (*evaluations, *more))

    async def _ask(
        self, client: ServerClient, first: str, second: str, fields: Mapping[str, str]
    ) -> tuple[bool, tuple[JudgeEvaluation, ...]]:
        # Both are fenced: a judge that could tell which one is the policy's would not be asked twice for nothing.
        judgement = await self.judge.ask(
            client,
            self.prompt,
            fields=fields,
            untrusted={self.first_field: first, self.second_field: second},
            read=label_reader({self.equal_label: True, self.different_label: False}),
        )
        return judgement.value, judgement.evaluations
