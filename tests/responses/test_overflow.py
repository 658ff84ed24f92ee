import pytest

from nemo_gym.responses import Overflow, OverflowKind
from nemo_gym.responses._overflow import parse_overflow

BUDGET, PROMPT = OverflowKind.BUDGET, OverflowKind.PROMPT

OVERFLOWS = [
    (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
        "(3000 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.",
        Overflow(BUDGET, limit=4096, prompt=3000, requested=2000),
    ),
    (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. "
        "Please reduce the length of the input messages.",
        Overflow(PROMPT, limit=4096, prompt=5000),
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
        "tokens and your request has 3000 input tokens (2000 > 4096 - 3000).",
        Overflow(BUDGET, limit=4096, prompt=3000, requested=2000),
    ),
    (
        "You passed 5000 input tokens and requested 10 output tokens. However, the model's context length is only "
        "4096 tokens, resulting in a maximum input length of 4086 tokens. Please reduce the length of the input "
        "prompt.",
        Overflow(PROMPT, limit=4096, prompt=5000, requested=10),
    ),
    (
        "max_completion_tokens=5000cannot be greater than max_model_len=max_total_tokens=4096. "
        "Please request fewer output tokens.",
        Overflow(BUDGET, limit=4096, requested=5000),
    ),
    ("max_tokens must be at least 1, got -186.", Overflow(BUDGET)),
    (
        "this model's maximum context length is 4096 tokens, but the prompt contains 5000 input tokens",
        Overflow(PROMPT, limit=4096, prompt=5000),
    ),
]

LOOK_ALIKES = [
    "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
    "When using `tool_choice`, `tools` must be set.",
    "Expecting ',' delimiter: line 1 column 14 (char 13)",
    "1 validation error: body.max_tokens: Input should be a valid integer",
    "chat template error: roles must alternate user/assistant; conversation length is 3",
    "Grammar compilation failed: maximum schema depth is 32",
]


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize(("text", "expected"), OVERFLOWS)
@pytest.mark.parametrize("spelling", [str, str.upper, lambda text: text.replace("'", "’")])
def test_every_wording_is_understood(status: int, text: str, expected: Overflow, spelling: object) -> None:
    assert callable(spelling)
    assert parse_overflow(status, spelling(text)) == expected


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_other_errors_are_not_overflows(text: str) -> None:
    assert parse_overflow(400, text) is None


@pytest.mark.parametrize("status", [200, 401, 404, 429, 503])
def test_only_some_statuses_can_mean_it(status: int) -> None:
    assert parse_overflow(status, OVERFLOWS[0][0]) is None


def test_openai_says_it_by_its_code() -> None:
    assert parse_overflow(400, "Your input is too long.", "context_length_exceeded") == Overflow(PROMPT)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_both_names_of_the_bound_are_read(field: str) -> None:
    text = f"{field}=5000cannot be greater than max_model_len=max_total_tokens=4096. Please request fewer."
    assert parse_overflow(400, text) == Overflow(BUDGET, limit=4096, requested=5000)


def test_characters_are_not_counted_as_tokens() -> None:
    text = (
        "You passed 90000 input characters and requested 10 output tokens. However, the model's context length is "
        "only 4096 tokens, resulting in a maximum input length of 4086 tokens."
    )
    assert parse_overflow(400, text) == Overflow(PROMPT, limit=4096, requested=10)


def test_a_prompt_that_fits_leaves_room() -> None:
    text = "You passed 3000 input tokens and requested 2000 output tokens. However, its context length is only 4096"
    overflow = parse_overflow(400, text)
    assert overflow is not None
    assert (overflow.kind, overflow.room) == (BUDGET, 1096)
    assert Overflow(BUDGET, limit=4096).room is None
