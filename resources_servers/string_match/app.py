"""Short answers, compared with the expected one as text or as quantities. The README defines the reward."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ConfigDict

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.metrics import key_metrics
from nemo_gym.reward_profile import compute_pass_majority_metrics
from nemo_gym.verify.answers import (
    AnswerForm,
    final_answer,
    final_text,
)
from nemo_gym.verify.matching import is_same_formula, is_same_text, strip_commands
from nemo_gym.verify.numbers import Quantity, is_same_quantity, read_quantity
from nemo_gym.verify.task_rows import invalid_row, refuse_unequalled
from nemo_gym.verify.typesetting import strip_math_marks

MAX_ANSWER_CHARS = 2_000
"""An answer that is longer than the expected one by more than this equals none."""


class StringMatchResourcesServerConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS


class ExtractionMode(StrEnum):
    """The place of the answer in the last message; the names are those of the ecosystem's datasets."""

    BOXED = "boxed"
    FINAL_ANSWER = "final_answer"
    """After the last "Final answer:", "Answer:" or "The answer is"; else in the last box, tag, object or sentence."""
    LAST_LINE = "last_line"
    FULL_RESPONSE = "full_response"


FORMS = {
    ExtractionMode.BOXED: (AnswerForm.BOXED,),
    ExtractionMode.FINAL_ANSWER: (
        AnswerForm.LINE,
        AnswerForm.BOXED,
        AnswerForm.TAG,
        AnswerForm.JSON,
        AnswerForm.SENTENCE,
    ),
}


class StringMatchRunRequest(BaseRunRequest):
    model_config = ConfigDict(coerce_numbers_to_str=True)

    expected_answer: str | list[str]
    """One right answer, or several."""
    extraction_mode: ExtractionMode = ExtractionMode.FINAL_ANSWER
    case_sensitive: bool = False
    metadata: dict[str, Any] | None = None


class StringMatchVerifyRequest(StringMatchRunRequest, BaseVerifyRequest):
    pass


class StringMatchVerifyResponse(BaseVerifyResponse):
    expected_answer: str | list[str]
    extracted_answer: str | None


class StringMatchResourcesServer(SimpleResourcesServer):
    config: StringMatchResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    async def check_task(  # type: ignore[override]  # with this environment's own row
        self, body: StringMatchRunRequest
    ) -> None:
        for expected in expected_answers(body):

            async def is_solved_by(text: str, expected: str = expected) -> bool:
                return is_right(extract_answer(text, body.extraction_mode), expected, body)

            await refuse_unequalled(expected, is_solved_by)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: StringMatchVerifyRequest
    ) -> StringMatchVerifyResponse:
        answer = extract_answer(final_text(body.response), body.extraction_mode)
        matches = [is_right(answer, expected, body) for expected in expected_answers(body)]
        return StringMatchVerifyResponse(
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(any(matches)),
            expected_answer=body.expected_answer,
            extracted_answer=answer,
        )

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks, answer_key="extracted_answer")[0]

    def get_key_metrics(self, agent_metrics: dict[str, Any]) -> dict[str, Any]:
        return key_metrics(agent_metrics, "pass@1[avg-of-{k}]", "pass@{k}", "majority@{k}")


def expected_answers(row: StringMatchRunRequest) -> list[str]:
    """Return the right answers. Raises InputError when there is none."""
    given = [row.expected_answer] if isinstance(row.expected_answer, str) else row.expected_answer
    answers = [answer for answer in given if answer.strip()]
    if not answers:
        raise invalid_row("expected_answer: missing", param="expected_answer")
    return answers


def extract_answer(text: str, mode: ExtractionMode) -> str | None:
    """Return the answer at the place that `mode` names; None when there is none."""
    match mode:
        case ExtractionMode.LAST_LINE:
            return (text.splitlines()[-1].strip() if text else None) or None
        case ExtractionMode.FULL_RESPONSE:
            return text or None
        case _:
            answer = final_answer(text, FORMS[mode])
            return answer.text if answer else None


def is_right(answer: str | None, expected: str, row: StringMatchRunRequest) -> bool:
    """Return whether an extracted answer equals one of a row's right answers."""
    return answer is not None and is_match(expected, answer, case_sensitive=row.case_sensitive)


def is_match(expected: str, answer: str, *, case_sensitive: bool) -> bool:
    """Return whether both are equal: as quantities when both are quantities, else as texts."""
    if len(answer) > MAX_ANSWER_CHARS + 4 * len(expected):
        return False
    if case_sensitive:
        return expected.strip() == answer.strip()
    answer = _NAME.sub("", strip_math_marks(answer)) if "=" not in expected else answer
    wanted, given = _read_number(expected), _read_number(answer)
    if wanted is not None and given is not None:
        return is_same_quantity(wanted, given)
    one, other = _strip_typesetting(expected), _strip_typesetting(answer)
    if is_same_text(one, other):
        return True
    return wanted is None and given is None and _is_formula(expected, one) and is_same_formula(one, other)


_NAME = re.compile(r"\A\s*[a-zA-Z]\s*=(?!=)\s*(?=\S)")
"""The side of an equation that only names the answer: "x = 18"."""
_POWER_OF_TEN = re.compile(r"\A\s*\$?\s*([+-]?)\s*(?=10\s*\^)")
_LETTER = re.compile(r"\(\s*([A-Z])\s*\)")
_HALF_OF_DAY = re.compile(r"(?<=\d)\s*([ap])\.?\s?m\b\.?", re.IGNORECASE)
_LIST = re.compile(r"\s*,\s+(?=[A-Z0-9](?!\w))")


def _read_number(text: str) -> Quantity | None:
    return read_quantity(_POWER_OF_TEN.sub(r"\1 1x", text))


def _strip_typesetting(text: str) -> str:
    """Return a text without typesetting, the brackets of a lone letter, and the dots of "3:30 p.m."."""
    plain = strip_commands(text)
    letter = _LETTER.fullmatch(plain)
    return letter[1] if letter else _HALF_OF_DAY.sub(r" \1m", _LIST.sub(",", plain))


def _is_formula(written: str, plain: str) -> bool:
    """Return whether a text has a sign of mathematics, so that spaces and fractions may be written in any way."""
    return re.search(r"[\\^_=<>+*/$\d]", plain) is not None or "$" in written


if __name__ == "__main__":
    StringMatchResourcesServer.run_webserver()
