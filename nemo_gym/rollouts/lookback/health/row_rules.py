"""The rules of single rows: each returns the fault that it finds, or None."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from itertools import groupby

from nemo_gym.failures import Outcome
from nemo_gym.json_objects import member
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rows.keys import METADATA_KEY, REWARD_KEY
from nemo_gym.rows.tool_errors import ToolErrorKind, read_tool_errors
from nemo_gym.rows.verdict import (
    is_response_incomplete,
    is_scored,
    read_answer_fault,
    read_end_reason,
    read_failure_class,
    read_outcome,
    read_reward,
)

_BLOCK = 8_192
_SHORTEST_BLOCK = 2_048
_REPETITIVE = 0.08
"""The compressed share of a repeated text. Prose and code have 0.3 to 0.5, a JSON list of alike objects 0.13."""
_SAME_CALLS = 10
_NEAR_ZERO = -1e-3
_FEWEST_TOKENS = 32
_VERDICTS = re.compile(r"(is_|all_)?(correct|passed|success|succeeded|solved|resolved|verified)")
_EXPECTED = (
    "expected_answer",
    "reference_answer",
    "correct_answer",
    "gold_answer",
    "ground_truth",
    "solution",
)
_SHORTEST_ANSWER = 8
_VERIFIER_FILE = re.compile(
    r"(?:^|[\s/\\\"'=])((?:verif(?:y|ier|ication)|grad(?:er?|ing)|rewards?|scor(?:er?|ing)|judge|conftest|run_tests|"
    r"test_outputs|expected_output)[\w-]*\.(?:py|sh|json|txt|ya?ml|js|ts))\b",
    re.IGNORECASE,
)


def bad_reward(row: CheckedRow) -> str | None:
    """A scored row has no reward that is a finite number."""
    if is_scored(row.row):
        return None
    failure = read_failure_class(row.row)
    return f"failed: {failure}" if failure is not None else f"the reward is {row.row.get(REWARD_KEY)!r}"


def empty_turn(row: CheckedRow) -> str | None:
    """A turn has neither text nor a call. The last turn of a truncated rollout is not checked."""
    whole = row.turns
    if is_truncated(row):
        whole = whole[:-1]
    elif not whole:
        return "the response has no output"
    return next((f"turn {number}" for number, turn in enumerate(whole, 1) if not turn.is_answer), None)


def check_truncated(row: CheckedRow) -> str | None:
    """The rollout was cut by a limit."""
    return read_end_reason(row.row) or "truncated" if is_truncated(row) else None


def is_truncated(row: CheckedRow) -> bool:
    """Return whether the rollout was cut by a limit, or its response was, whatever its outcome says."""
    return read_outcome(row.row) is Outcome.TRUNCATED or is_response_incomplete(row.row)


def tool_raised(row: CheckedRow) -> str | None:
    """The code of a tool raised an exception, or answered a status from 500."""
    return _tool_errors(row, is_raised=True)


def tool_failed(row: CheckedRow) -> str | None:
    """A tool has no route, refuses what its declaration allows, was out of reach, or had no effect."""
    return _tool_errors(row, is_raised=False)


def _tool_errors(row: CheckedRow, *, is_raised: bool) -> str | None:
    errors = [
        error
        for error in read_tool_errors(row.row)
        if error.call.is_environments and (error.call.kind is ToolErrorKind.RAISED) is is_raised
    ]
    texts = [f"{count} x `{call.tool}`: {call}" for call, count in errors]
    return "; ".join(texts) or None


def broke_verifier(row: CheckedRow) -> str | None:
    """The answer broke its verifier, so that its 0 is no judgement of it."""
    return read_answer_fault(row.row)


def repetition(row: CheckedRow) -> str | None:
    """A text repeats itself, which its compressed size shows, or one call is repeated with the same arguments."""
    for number, turn in enumerate(row.turns, 1):
        for block in _blocks(turn.text.encode()):
            if len(zlib.compress(block, 1)) < _REPETITIVE * len(block):
                return f"turn {number} repeats {block[-60:].decode(errors='ignore')!r}"
    for call, same in groupby(row.calls):
        if (count := sum(1 for _ in same)) >= _SAME_CALLS:
            return f"{count} successive calls of {call.name} with the same arguments"
    return None


def _blocks(text: bytes) -> Iterator[bytes]:
    """Yield overlapping blocks of a text, the last one at its end; none of a short text."""
    if len(text) < _SHORTEST_BLOCK:
        return
    for start in range(0, len(text) - _BLOCK, _BLOCK // 2):
        yield text[start : start + _BLOCK]
    yield text[-_BLOCK:]


def check_missing_tokens(row: CheckedRow) -> str | None:
    """A turn lacks the tokens that other turns of the row have, or a call is masked."""
    if not row.has_tokens:
        return None
    for number, turn in enumerate(row.turns, 1):
        if not turn.has_tokens:
            return f"turn {number} has no tokens"
    return next((f"call {n}: {call.masked}" for n, call in enumerate(row.model_calls) if call.masked), None)


def certain_logprobs(row: CheckedRow) -> str | None:
    """All log-probabilities are near 0: the policy has collapsed, or the engine does not report them."""
    free = [call.tokens for call in row.model_calls if call.tokens and not call.is_under_grammar]
    logprobs = [logprob for tokens in free for logprob in tokens.logprobs]
    if len(logprobs) < _FEWEST_TOKENS or min(logprobs) < _NEAR_ZERO:
        return None
    return f"{len(logprobs):,} tokens, the least likely at {min(logprobs):.2g}"


def reward_disagrees(row: CheckedRow) -> str | None:
    """A Boolean verdict of the verifier and the reward disagree: false with 1 or more, or true with 0 or less."""
    reward = read_reward(row.row)
    if reward is None:
        return None
    for name, verdict in row.row.items():
        if isinstance(verdict, bool) and _VERDICTS.fullmatch(name):
            disagrees = reward <= 0 if verdict else reward >= 1
            if disagrees:
                return f"{name} is {str(verdict).lower()}, the reward {reward:g}"
    return None


def answer_leaked(row: CheckedRow) -> str | None:
    """The prompt or a tool result contains the expected answer, of 8 characters or more."""
    for name, answer in _list_expected_answers(row):
        if answer in row.prompt:
            return f"the prompt contains {name}"
        if any(answer in result for result in row.tool_results):
            return f"a tool result contains {name}"
    return None


def _list_expected_answers(row: CheckedRow) -> Iterator[tuple[str, str]]:
    for place in (row.row, row.row.get(METADATA_KEY)):
        for name in _EXPECTED:
            answer = member(place, name)
            if isinstance(answer, str) and len(answer.strip()) >= _SHORTEST_ANSWER:
                yield name, answer.strip()


def verifier_touched(row: CheckedRow) -> str | None:
    """The arguments of a call name a file of a verifier, such as `grader.py` or `reward.txt`."""
    for call in row.calls:
        if match := _VERIFIER_FILE.search(call.arguments):
            return f"{call.name} names {match[1]}"
    return None
