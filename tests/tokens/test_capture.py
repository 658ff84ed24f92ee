"""Ids are found wherever an engine puts them, and doubted wherever it contradicts itself."""

from __future__ import annotations

import math
from typing import Any

import pytest

from nemo_gym.tokens.capture import Capture, capture_chat, find_logprobs_fault
from nemo_gym.tokens.reasons import MaskReason

PROMPT, GENERATED, LOGPROBS = [1, 2, 3], [7, 8], [-0.5, -1.5]


def entries(ids: list[int] | None = GENERATED, logprobs: Any = LOGPROBS) -> dict[str, Any]:
    names = [f"token_id:{token}" for token in ids] if ids is not None else ["a", "b"]
    return {
        "content": [{"token": name, "logprob": value} for name, value in zip(names, logprobs, strict=False)]
    }


def answer(
    top: dict[str, Any] | None = None, message: dict[str, Any] | None = None, **choice: Any
) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", **(message or {})}, **choice}], **(top or {})}


TOP = {"prompt_token_ids": PROMPT}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


@pytest.mark.parametrize(
    "chat",
    [
        answer(TOP, token_ids=GENERATED, logprobs=entries()),
        answer(TOP, token_ids=GENERATED, logprobs=entries(None)),
        answer(TOP, logprobs=entries()),
        answer(token_ids=GENERATED, prompt_token_ids=PROMPT, logprobs=entries()),
        answer(
            message={
                **TOP,
                "generation_token_ids": GENERATED,
                "generation_log_probs": LOGPROBS,
            }
        ),
        answer({**TOP, "usage": USAGE}, message=TOP, token_ids=GENERATED, logprobs=entries()),
        answer({**TOP, "usage": None}, token_ids=GENERATED, logprobs=entries()),
        answer({**TOP, "usage": {"prompt_tokens": 3}}, token_ids=GENERATED, logprobs=entries()),
    ],
    ids=[
        "newest",
        "text names",
        "names only",
        "on the choice",
        "on the message",
        "twice",
        "no usage",
        "half",
    ],
)
def test_ids_are_read_in_every_dialect(chat: dict[str, Any]) -> None:
    capture = capture_chat(chat)
    assert (capture.prompt_ids, capture.generated_ids, capture.logprobs) == (PROMPT, GENERATED, LOGPROBS)
    assert capture.masked is None


@pytest.mark.parametrize(
    ("chat", "reason"),
    [
        (answer(), MaskReason.MISSING_TOKEN_IDS),
        (answer(token_ids=GENERATED, logprobs=entries()), MaskReason.MISSING_TOKEN_IDS),
        (answer(TOP, logprobs=entries(None)), MaskReason.MISSING_TOKEN_IDS),
        (answer(TOP, token_ids=[], logprobs={"content": []}), MaskReason.MISSING_TOKEN_IDS),
        (answer(TOP, token_ids=[7, 9], logprobs=entries()), MaskReason.CONFLICTING_TOKEN_IDS),
        (
            answer(TOP, {"prompt_token_ids": [1]}, token_ids=GENERATED, logprobs=entries()),
            MaskReason.CONFLICTING_TOKEN_IDS,
        ),
        (answer(TOP, token_ids="78", logprobs=entries(None)), MaskReason.INVALID_TOKEN_IDS),
        (answer(TOP, token_ids=[7, -8], logprobs=entries(None)), MaskReason.INVALID_TOKEN_IDS),
        (
            answer({**TOP, "usage": {"completion_tokens": 3}}, token_ids=GENERATED, logprobs=entries()),
            MaskReason.SHORT_TOKEN_IDS,
        ),
        (answer(TOP, token_ids=GENERATED), MaskReason.MISSING_LOGPROBS),
        (answer(TOP, token_ids=GENERATED, logprobs={"content": None}), MaskReason.MISSING_LOGPROBS),
        (answer(TOP, token_ids=GENERATED, logprobs=entries(logprobs=[-0.5])), MaskReason.SHORT_LOGPROBS),
        (
            answer(TOP, {"generation_log_probs": [-0.5]}, token_ids=GENERATED),
            MaskReason.SHORT_LOGPROBS,
        ),
        (
            answer(TOP, token_ids=GENERATED, logprobs=entries(logprobs=[-0.5, None])),
            MaskReason.INVALID_LOGPROBS,
        ),
    ],
)
def test_untrustworthy_token_data_masks_the_call_and_leaves_no_ids(
    chat: dict[str, Any], reason: MaskReason
) -> None:
    assert capture_chat(chat) == Capture(masked=reason)


@pytest.mark.parametrize("value", [None, math.nan, -math.inf, math.inf, -9999.0, -9998.5, 0.5, "-1", True])
def test_a_value_that_is_no_logprob_masks_the_call(value: Any) -> None:
    assert find_logprobs_fault([-0.5, value, -1], 3) is MaskReason.INVALID_LOGPROBS


@pytest.mark.parametrize("value", [0, 0.0, -0.0, 1e-7, -50, -9000.0])
def test_certain_and_unlikely_tokens_are_trained_on(value: float) -> None:
    assert find_logprobs_fault([-0.5, value], 2) is None
