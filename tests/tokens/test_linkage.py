"""Ledgers: whatever the order of prompts, the records put every prompt together again and share no sampled token."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.tokens._rebuilding import Rebuilding
from nemo_gym.tokens.capture import Capture
from nemo_gym.tokens.histories import History, MessageDigest, digest_of, history_of, reasoning_texts
from nemo_gym.tokens.ids import encode_ids
from nemo_gym.tokens.ledgers import Ledgers
from nemo_gym.tokens.linkage import MOST_LEAVES, Ledger, exact_reason, reason_of
from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.records import CallRecord
from nemo_gym.tokens.segments import segments_of


def captured(prompt: list[int], generated: list[int]) -> Capture:
    logprobs = [-token / 8 for token in generated]
    return Capture(prompt, generated, logprobs, None, encode_ids(prompt), encode_ids(generated))


def said(*words: str) -> History:
    return tuple(
        MessageDigest(role="user", content_hash=hash(word), has_reasoning=False, size=len(word))
        for word in words
    )


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
        records.append(CallRecord.linked(capture, ledger.add(capture, history)))
    rebuilding = Rebuilding()
    for record, (prompt, generated) in zip(records, truths, strict=True):
        assert rebuilding.add(record) is None
        assert record.sequence is not None
        assert rebuilding[record.sequence].prompt_ids == prompt
        assert rebuilding[record.sequence].ids == prompt + generated
    segments = segments_of(records)
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
        reason_of(old, said("system", "question", "answer", "output", "answer 2", "x"))
        is SegmentReason.TEMPLATE_REWRITE
    )
    assert (
        reason_of(old, said("system", "question", "answer", "o", "answer 2", "x")) is SegmentReason.COMPACTED
    )
    assert (
        reason_of(old, said("system", "question", "answer", "output" * 9, "answer 2")) is SegmentReason.EDITED
    )
    assert reason_of(old, said("system", "question", "sum")) is SegmentReason.COMPACTED
    assert reason_of(old, said("system", "question")) is SegmentReason.BRANCH
    assert reason_of(old, said("another")) is SegmentReason.BRANCH
    assert (
        reason_of(old, said("system", "question", "answer", "output", "another answer" * 9))
        is SegmentReason.BRANCH
    )


def test_reasoning_that_was_not_sent_back_is_the_reason() -> None:
    thinking = (*said("question"), MessageDigest("assistant", 1, True, 5))
    silent = (*said("question"), MessageDigest("assistant", 1, False, 5), *said("next"))
    assert reason_of(thinking, silent) is SegmentReason.REASONING_DROPPED


def test_the_texts_tell_what_a_template_did() -> None:
    seen = "<think>I should look it up.</think>Snow."
    assert exact_reason(seen, seen + "<|user|>Next", []) is SegmentReason.RETOKENIZED
    thoughts = ["I should look it up."]
    assert exact_reason(seen, "Snow.<|user|>Next", thoughts) is SegmentReason.REASONING_DROPPED
    assert exact_reason(seen, seen.replace(".", "!"), thoughts) is SegmentReason.REASONING_DROPPED
    assert exact_reason("Snow.", "Snow<|user|>Next", thoughts) is SegmentReason.TEMPLATE_REWRITE


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_an_answer_is_recognised_when_it_comes_back() -> None:
    answers: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"content": None, "tool_calls": [CALL]}, {"content": "", "tool_calls": [CALL]}),
        (
            {"content": "hi", "reasoning": "hm"},
            {"content": "hi", "reasoning": "hm", "reasoning_content": "hm"},
        ),
        ({"content": "<think>hm</think>hi"}, {"content": "hi", "reasoning_content": "hm"}),
    ]
    for was, now in answers:
        assert digest_of({"role": "assistant", **was}).says_same(digest_of({"role": "assistant", **now}))
        assert (
            digest_of({"role": "assistant", **was}).has_reasoning
            is digest_of({"role": "assistant", **now}).has_reasoning
        )


def test_tools_are_part_of_what_is_said() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert history_of({"messages": messages}) != history_of({"messages": messages, "tools": [CALL]})


def test_thoughts_are_found_in_fields_and_in_the_text() -> None:
    messages = [
        {"role": "user", "content": "<think>not mine</think>"},
        {"role": "assistant", "content": "<think> inline </think>x", "reasoning": ""},
        {"role": "assistant", "content": "y", "reasoning_content": "field"},
    ]
    assert reasoning_texts(messages) == ["inline", "field"]


# --- Room -------------------------------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_sessions_that_are_silent_for_long_are_dropped() -> None:
    clock = Clock()
    ledgers = Ledgers(idle_s=60, clock=clock)
    ledgers.add("old", captured([1], [2]))
    clock.now = 61
    ledgers.add("new", captured([1], [2]))
    assert len(ledgers) == 1
    assert ledgers.held_ids == 2


def test_when_room_runs_out_the_longest_silent_session_forgets_first() -> None:
    ledgers = Ledgers(room_mb=10 * 4 / 1e6)
    for session in ("a", "b", "c"):
        ledgers.add(session, captured([1, 2, 3], [4]), said("q", session))
    assert ledgers.held_ids == 8
    extended = captured([1, 2, 3, 4, 5], [6])
    assert ledgers.add("c", extended, said("q", "c", "x", "y")).reason is None
    assert ledgers.add("a", extended, said("q", "a", "x", "y")).reason is SegmentReason.UNLINKED


def test_a_closed_session_leaves_nothing() -> None:
    ledgers = Ledgers()
    ledgers.add("a", captured([1], [2]))
    ledgers.drop("a")
    ledgers.drop("a")
    assert (len(ledgers), ledgers.held_ids) == (0, 0)


def test_calls_without_a_session_are_alone() -> None:
    ledgers = Ledgers()
    assert ledgers.add(None, captured([1], [2])).reason is None
    assert ledgers.add(None, captured([1], [2])).call == ledgers.add_masked(None) == 0
    assert len(ledgers) == 0
