"""Invariants of every row, and the checks of a trainer, written from its contract."""

from __future__ import annotations

import math
from typing import Any

from nemo_gym.mock_engine.drifting import Sampled
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens._rebuilding import Rebuilding
from nemo_gym.tokens.segments import Part, Segment, build_segments


def check_exact(row: dict[str, Any], truths: list[Sampled]) -> list[Segment]:
    """The row's ids are those that the engine read and sampled, and each sampled token is in one segment."""
    records = read_calls(row)
    assert len(records) == len(truths)
    rebuilding = Rebuilding()
    for record, truth in zip(records, truths, strict=True):
        if record.tokens is None:
            assert record.masked
            continue
        assert rebuilding.add(record) is None
        assert record.sequence is not None
        call = rebuilding[record.sequence]
        assert call.prompt_ids == truth.prompt_ids
        assert call.ids == truth.prompt_ids + truth.generated_ids
        assert record.tokens.logprobs == truth.logprobs
    segments = build_segments(records)
    trained = [place for place, record in enumerate(records) if record.tokens is not None]
    assert sorted(place for segment in segments for place in segment.calls) == trained
    for segment in segments:
        _check_segment(segment, [truths[place] for place in segment.calls])
    assert sum(segment.sampled for segment in segments) == sum(
        len(truths[place].generated_ids) for place in trained
    )
    return segments


def _check_segment(segment: Segment, truths: list[Sampled]) -> None:
    assert len(segment.token_ids) == len(segment.loss_mask) == len(segment.logprobs)
    assert segment.token_ids == truths[-1].prompt_ids + truths[-1].generated_ids
    sampled = [place for place, bit in enumerate(segment.loss_mask) if bit]
    assert [segment.token_ids[place] for place in sampled] == [
        token for truth in truths for token in truth.generated_ids
    ]
    assert [segment.logprobs[place] for place in sampled] == [
        logprob for truth in truths for logprob in truth.logprobs
    ]
    others = {logprob for logprob, bit in zip(segment.logprobs, segment.loss_mask, strict=True) if not bit}
    assert others <= {None}
    assert [span.start for span in segment.spans] == [0, *(span.end for span in segment.spans[:-1])]
    assert segment.spans[-1].end == len(segment.token_ids)
    assert sampled == [
        at for span in segment.spans if span.part is Part.SAMPLED for at in range(span.start, span.end)
    ]


def read_as_nemo_rl(row: dict[str, Any]) -> list[int]:
    """The tokens that NeMo RL would train on; fails where it would."""
    seen: list[int] = []
    trained: list[int] = []
    for item in row["response"]["output"]:
        generated = item.get("generation_token_ids")
        if not generated:
            continue
        prompt, logprobs = item["prompt_token_ids"], item["generation_log_probs"]
        assert prompt[: len(seen)] == seen, "the prompt doesn't begin with what was seen"
        assert len(logprobs) == len(generated)
        assert not any(logprob is None or math.isnan(logprob) for logprob in logprobs)
        seen = prompt + generated
        trained += generated
    return trained
