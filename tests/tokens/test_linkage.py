"""Ledgers: whatever the order of prompts, the records put every prompt together again and share no sampled token."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.tokens.capture import Capture, capture_chat
from nemo_gym.tokens.histories import MessageDigest
from nemo_gym.tokens.ids import write_ids
from nemo_gym.tokens.light_parsing import IdText
from nemo_gym.tokens.linkage import MOST_LEAVES, Ledger, exact_reason, find_reason
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.rebuilding import Rebuilding
from nemo_gym.tokens.records import CallRecord
from nemo_gym.tokens.segments import build_segments
from tests.tokens.captures import captured, said

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=4)
steps = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 6), tokens, tokens, st.booleans()), min_size=1, max_size=14
)


@given(steps)
def test_every_prompt_is_rebuilt_and_every_sampled_token_is_in_one_segment(drawn: list[Any]) -> None:
    """Calls that go on from, cut short, or change what any earlier call said, in any order."""
    ledger = Ledger()
    records: list[CallRecord] = []
    truths: list[tuple[list[int], list[int]]] = []
    for source, cut, added, generated, is_known in drawn:
        seen = truths[source % len(truths)] if truths else ([], [])
        whole = seen[0] + seen[1]
        prompt = whole[: len(whole) - cut] + added if cut else whole + added
        history = said(*map(str, prompt)) + said("answer") if is_known else None
        capture = captured(prompt, generated)
        truths.append((prompt, generated))
        records.append(CallRecord.from_capture(capture, ledger.add(capture, history)))
    rebuilding = Rebuilding()
    for record, (prompt, generated) in zip(records, truths, strict=True):
        assert rebuilding.add(record) is None
        assert record.sequence is not None
        assert rebuilding[record.sequence].prompt_ids == prompt
        assert rebuilding[record.sequence].ids == prompt + generated
    segments = build_segments(records)
    assert sorted(place for segment in segments for place in segment.calls) == list(range(len(records)))
    assert sum(segment.sampled for segment in segments) == sum(len(generated) for _, generated in truths)


def test_the_longest_conversation_is_gone_on_with() -> None:
    ledger = Ledger()
    ledger.add(captured([1], [2]), said("a", "b"))
    ledger.add(captured([1], [2, 3]), said("a", "c"))
    link = ledger.add(captured([1, 2, 3, 4], [5]), said("a", "c", "d", "e"))
    assert (link.kept, link.reason) == (3, None)


def test_a_session_holds_a_bounded_number_of_conversations() -> None:
    ledger = Ledger()
    for number in range(3 * MOST_LEAVES):
        ledger.add(captured([number], [number]), said(f"question {number}", "answer"))
    assert len(ledger) == 2 * MOST_LEAVES


def test_reasons_by_what_was_said() -> None:
    old = said("system", "question", "answer", "output", "answer 2")
    assert (
        find_reason(old, said("system", "question", "answer", "output", "answer 2", "x"))
        is SegmentReason.TEMPLATE_REWRITE
    )
    assert (
        find_reason(old, said("system", "question", "answer", "o", "answer 2", "x"))
        is SegmentReason.COMPACTED
    )
    assert (
        find_reason(old, said("system", "question", "answer", "output" * 9, "answer 2"))
        is SegmentReason.EDITED
    )
    assert find_reason(old, said("system", "question", "sum")) is SegmentReason.COMPACTED
    assert find_reason(old, said("system", "question")) is SegmentReason.BRANCH
    assert find_reason(old, said("another")) is SegmentReason.BRANCH
    assert (
        find_reason(old, said("system", "question", "answer", "output", "another answer" * 9))
        is SegmentReason.BRANCH
    )


def test_reasoning_that_was_not_sent_back_is_the_reason() -> None:
    thinking = (*said("question"), MessageDigest("assistant", 1, True, 5))
    silent = (*said("question"), MessageDigest("assistant", 1, False, 5), *said("next"))
    assert find_reason(thinking, silent) is SegmentReason.REASONING_DROPPED


def test_the_texts_tell_what_a_template_did() -> None:
    seen = "<think>I should look it up.</think>Snow."
    assert exact_reason(seen, seen + "<|user|>Next", []) is SegmentReason.RETOKENIZED
    thoughts = ["I should look it up."]
    assert exact_reason(seen, "Snow.<|user|>Next", thoughts) is SegmentReason.REASONING_DROPPED
    assert exact_reason(seen, seen.replace(".", "!"), thoughts) is SegmentReason.REASONING_DROPPED
    assert exact_reason("Snow.", "Snow<|user|>Next", thoughts) is SegmentReason.TEMPLATE_REWRITE


def lightly_captured(ledger: Ledger, prompt: list[int], generated: list[int]) -> Capture:
    """Capture a call whose prompt came as text, as the model server does."""
    message = {"generation_log_probs": [-token / 8 for token in generated]}
    choice = {"message": message, "token_ids": generated}
    return capture_chat(
        {"prompt_token_ids": IdText(write_ids(prompt)), "choices": [choice]}, ledger.find_known
    )


@pytest.mark.parametrize(
    "prompts",
    [([1, 2], [1, 2, 9, 5]), ([1, 2], [1, 2, 95]), ([1, 2], [1, 2, 9]), ([1, 2], [7], [1, 2, 9, 4])],
)
def test_prompts_as_text_are_linked_as_lists_are(prompts: tuple[list[int], ...]) -> None:
    by_text, by_list = Ledger(), Ledger()
    for prompt in prompts:
        capture = lightly_captured(by_text, prompt, [9])
        assert (capture.prompt_ids, capture.prompt.text) == (prompt, write_ids(prompt))
        assert by_text.add(capture) == by_list.add(captured(prompt, [9]))


@pytest.mark.parametrize(
    "text", [b"1,2,9,-1", b"1,2,9,x", b"1,2,9,", b"1,2,9,[3]", b"1.5", b"1,2,9,4294967296"]
)
def test_text_that_is_no_list_of_ids_masks_the_call(text: bytes) -> None:
    ledger = Ledger()
    ledger.add(lightly_captured(ledger, [1, 2], [9]))
    choice = {"message": {"generation_log_probs": [-0.5]}, "token_ids": [3]}
    capture = capture_chat({"prompt_token_ids": IdText(text), "choices": [choice]}, ledger.find_known)
    assert capture == Capture(masked=MaskReason.INVALID_TOKEN_IDS)


def test_texts_count_as_held_ids_until_they_are_forgotten() -> None:
    ledger = Ledger()
    ledger.add(lightly_captured(ledger, [100, 200], [300]))
    assert len(ledger) == 3 + len(b"100,200,300") // 4
    ledger.forget()
    assert len(ledger) == 0
    assert ledger.find_known(b"100,200,300,4") is None
