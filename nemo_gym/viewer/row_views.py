"""Parts of a row for the page: its card in a table, and its tokens."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from nemo_gym.json_objects import finite_number
from nemo_gym.responses.wire import read_content_text
from nemo_gym.rollouts.lookback.comparison import task_title
from nemo_gym.rollouts.lookback.health import HealthReport
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_output
from nemo_gym.tokens.segments import Segment, build_segments
from nemo_gym.tokens.vocabulary import Vocabulary
from nemo_gym.viewer.indexing import LinePlace

_ANSWER_CHARS = 160


def build_card(row: AnyRow) -> dict[str, str]:
    """Return the beginning of the task and the end of the last message."""
    return {"title": task_title(row), "answer": _last_text(row)[-_ANSWER_CHARS:]}


def build_tokens(row: AnyRow, vocabulary: Vocabulary | None = None) -> dict[str, Any] | None:
    """Return the segments of a row and its masked calls as JSON; None for a row without tokens."""
    calls = read_calls(row)
    if not calls:
        return None
    masked = [
        {"call": number, "reason": call.masked}
        for number, call in enumerate(calls)
        if call.masked is not None
    ]
    versions = [call.policy_version for call in calls]
    return {
        "segments": [_segment(segment, versions, vocabulary) for segment in build_segments(calls)],
        "masked_calls": masked,
    }


def build_flags(report: HealthReport, places: Sequence[LinePlace]) -> list[dict[str, Any]]:
    """Return every rule with its findings as JSON. `places`: those of the lines that were checked."""
    return [
        {
            "name": name,
            "severity": findings.rule.severity,
            "rule": findings.rule.words,
            "count": findings.count,
            "findings": [
                {
                    "text": finding.text,
                    "task": finding.task,
                    # A plain tuple: the JSON of a named one would be its text.
                    "place": tuple(places[finding.line - 1])
                    if finding.line and finding.line <= len(places)
                    else None,
                }
                for finding in findings.first
            ],
        }
        for name, findings in report.rules.items()
    ]


def _segment(segment: Segment, versions: list[Any], vocabulary: Vocabulary | None) -> dict[str, Any]:
    return {
        "ids": segment.token_ids,
        "texts": _read_texts(segment.token_ids, vocabulary) if vocabulary else None,
        "logprobs": [finite_number(value) for value in segment.logprobs],
        "mask": segment.loss_mask,
        "grammar": segment.grammar_mask if any(segment.grammar_mask) else None,
        "spans": [{**span._asdict(), "policy_version": versions[span.call]} for span in segment.spans],
        "reason": segment.reason,
    }


def _read_texts(tokens: Iterable[int], vocabulary: Vocabulary) -> dict[str, str | dict[str, str]]:
    """Return the text of each id that occurs and is known."""
    known = {token: vocabulary.get(token) for token in set(tokens)}
    return {str(token): _decode_text(content) for token, content in known.items() if content is not None}


def _decode_text(content: bytes) -> str | dict[str, str]:
    """Return the text of bytes; in base64 if they are not whole characters."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(content).decode()}


def _last_text(row: AnyRow) -> str:
    messages = (item for item in reversed(read_output(row)) if item.get("type") == "message")
    return " ".join(read_content_text(next(messages, {}).get("content")).split())
