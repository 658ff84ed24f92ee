"""The law of the matcher: every recorded sequence is accepted, and each single change is refused at its turn."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.engines.attempts.matching import ComparedCall, Matcher, Mismatch
from nemo_gym.engines.attempts.noise import Noise
from nemo_gym.engines.attempts.replay import build_mismatch_failure
from nemo_gym.responses.turns import SpokenTurn
from nemo_gym.rollouts.run.failure_groups import FailureGroups
from nemo_gym.rows.identity import RolloutId

Conversation = list[ComparedCall]

texts = st.text("ab \u00e9{}", min_size=1, max_size=4)


@st.composite
def conversations(draw: st.DrawFn, name: str) -> Conversation:
    """The calls of one agent: each says all of the one before, its answer, and what the tools said."""
    turns = [SpokenTurn("user", f"{name}{draw(texts)}")]
    calls: Conversation = []
    for _ in range(draw(st.integers(1, 4))):
        answer = tuple(SpokenTurn("call", draw(texts)) for _ in range(draw(st.integers(1, 2))))
        calls.append(ComparedCall(0, "m", tuple(turns), answer=answer))
        turns += [*answer, *(SpokenTurn("output", draw(texts)) for _ in answer)]
    return calls


@st.composite
def interleavings(draw: st.DrawFn, parts: list[Conversation]) -> list[ComparedCall]:
    """The calls of several agents side by side, in one of their orders."""
    left, order = [list(part) for part in parts], []
    while any(left):
        chosen = draw(st.sampled_from([part for part in left if part]))
        order.append(chosen.pop(0))
    return order


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[ComparedCall], list[ComparedCall]]:
    """What was recorded, and the same calls in another order in which the agents may come."""
    parts = [draw(conversations(f"{number}:")) for number in range(draw(st.integers(1, 3)))]
    recorded, again = draw(interleavings(parts)), draw(interleavings(parts))
    for number, call in enumerate(recorded, 1):
        call.number = number
    return recorded, again


def build_matcher(recorded: list[ComparedCall], *, answered: int | None = None) -> Matcher:
    """A matcher of a record; of the calls after the first `answered` ones, only the requests are known."""
    left = [replace(call, answer=None) for call in recorded]
    for call in left[answered if answered is not None else len(left) :]:
        call.is_answered = False
    return Matcher(left)


def say(matcher: Matcher, call: ComparedCall) -> ComparedCall | None:
    """Make a call and get its answer. Returns the recorded call that it is."""
    asked = replace(call, number=1000, answer=None)
    match = matcher.match(asked)
    if match.recorded is None:
        matcher.add_live(asked)
    (match.recorded or asked).answer = call.answer
    return match.recorded


@given(recordings())
def test_every_recorded_sequence_is_accepted_in_every_order(
    recording: tuple[list[ComparedCall], list[ComparedCall]],
) -> None:
    recorded, again = recording
    matcher = build_matcher(recorded)
    for call in again:
        found = say(matcher, call)
        assert found is not None
        assert found.turns == call.turns
    assert matcher.is_over
    assert matcher.missing == 0


@given(recordings(), st.data())
def test_calls_that_were_in_flight_are_compared_and_live(
    recording: tuple[list[ComparedCall], list[ComparedCall]], data: st.DataObject
) -> None:
    recorded, _ = recording
    answered = data.draw(st.integers(0, len(recorded)))
    matcher = build_matcher(recorded, answered=answered)
    for number, call in enumerate(recorded):
        found = say(matcher, call)
        assert found is not None
        assert found.is_answered is (number < answered)


def change(turns: tuple[SpokenTurn, ...], at: int, how: str) -> tuple[SpokenTurn, ...]:
    kind, text = turns[at]
    changed = {
        "one character": (SpokenTurn(kind, text[:-1] + "X"),),
        "missing": (),
        "extra": (SpokenTurn("output", "more"), turns[at]),
        "longer": (SpokenTurn(kind, text + " "),),
    }
    return (*turns[:at], *changed[how], *turns[at + 1 :])


@given(
    conversations(""),
    st.data(),
    st.sampled_from(["one character", "missing", "extra", "longer"]),
)
def test_each_single_change_is_refused_at_its_turn(
    recorded: Conversation, data: st.DataObject, how: str
) -> None:
    for number, call in enumerate(recorded, 1):
        call.number = number
    wrong = data.draw(st.integers(0, len(recorded) - 1))
    at = data.draw(st.integers(0, len(recorded[wrong].turns) - 1))
    matcher = build_matcher(recorded)
    for call in recorded[:wrong]:
        say(matcher, call)
    changed = change(tuple(recorded[wrong].turns), at, how)
    if changed == recorded[wrong].turns:
        return
    first = next(
        (
            place
            for place, pair in enumerate(zip(changed, recorded[wrong].turns, strict=False))
            if pair[0] != pair[1]
        ),
        min(len(changed), len(recorded[wrong].turns)),
    )
    with pytest.raises(Mismatch) as caught:
        matcher.match(replace(recorded[wrong], turns=changed))
    assert (caught.value.call, caught.value.turn) == (wrong + 1, first + 1)


def turns(*texts: str) -> tuple[SpokenTurn, ...]:
    kinds = ("user", "call", "output")
    return tuple(
        SpokenTurn(kinds[min(at, 1) if at < 2 else 2 - at % 2], text) for at, text in enumerate(texts)
    )


CHAIN = [
    ComparedCall(1, "m", turns("go"), answer=(SpokenTurn("call", "f {}"),)),
    ComparedCall(2, "m", turns("go", "f {}", "42"), answer=(SpokenTurn("assistant", "done"),)),
]


def test_a_call_after_the_record_is_live_for_good() -> None:
    matcher = build_matcher(CHAIN[:1])
    say(matcher, CHAIN[0])
    assert matcher.is_over
    assert say(matcher, CHAIN[0]) is None, "it is not answered from the record again"


def test_a_mismatch_shows_both_texts_and_the_first_difference() -> None:
    matcher = build_matcher(CHAIN)
    say(matcher, CHAIN[0])
    with pytest.raises(Mismatch) as caught:
        matcher.match(ComparedCall(9, "m", turns("go", "f {}", "43")))
    assert str(caught.value) == (
        "call 2 of the replayed attempt differs from the recorded one at turn 3 (output), character 1: "
        "recorded '42', now '43'"
    )


def test_both_texts_are_shown_around_their_first_difference() -> None:
    """The message is cut in the closing table, and noise before the difference may be long in one of the texts."""
    long = "x" * 500
    recorded, said = (f"{took} s {long} {end} {long}" for took, end in (("1", "yes"), ("1" * 90, "no")))
    calls = [ComparedCall(1, "m", turns("go", "f {}", recorded))]
    with pytest.raises(Mismatch) as caught:
        Matcher(calls, Noise(["duration"])).match(ComparedCall(9, "m", turns("go", "f {}", said)))
    assert (caught.value.recorded, caught.value.said) == (
        f"…{'x' * 29} yes {'x' * 36}…",
        f"…{'x' * 29} no {'x' * 37}…",
    )
    groups, failure = FailureGroups(), build_mismatch_failure(str(caught.value)).failure
    groups.note(RolloutId(0, 0), failure.code, failure)
    assert str(caught.value) in "\n".join(groups.rank_groups()[0].lines())


def test_swapped_outputs_of_parallel_calls_are_a_mismatch() -> None:
    answer = (SpokenTurn("call", "f 1"), SpokenTurn("call", "f 2"))
    outputs = (SpokenTurn("output", "one"), SpokenTurn("output", "two"))
    go = SpokenTurn("user", "go")
    recorded = [
        ComparedCall(1, "m", (go,), answer=answer),
        ComparedCall(2, "m", (go, *answer, *outputs), answer=()),
    ]
    matcher = build_matcher(recorded)
    say(matcher, recorded[0])
    with pytest.raises(Mismatch) as caught:
        matcher.match(ComparedCall(9, "m", (go, *answer, *reversed(outputs))))
    assert caught.value.turn == 4


def test_another_model_is_a_mismatch() -> None:
    with pytest.raises(Mismatch, match=r"at model.*recorded 'm', now 'n'"):
        build_matcher(CHAIN).match(replace(CHAIN[0], model="n"))


def test_changed_instructions_are_noted_and_a_mismatch_only_if_strict() -> None:
    changed = replace(CHAIN[0], instructions="Today is Tuesday.")
    assert build_matcher(CHAIN).match(changed).changes_instructions
    strict = build_matcher(CHAIN)
    strict.is_strict = True
    with pytest.raises(Mismatch, match="instructions"):
        strict.match(changed)


def test_noise_is_counted_where_it_is_declared() -> None:
    recorded = [ComparedCall(1, "m", turns("go", "f", "in 3 s"))]
    said = ComparedCall(9, "m", turns("go", "f", "in 4 s"))
    assert Matcher(list(recorded), Noise(["duration"])).match(said).noise == {"duration": 1}
    with pytest.raises(Mismatch):
        Matcher(list(recorded)).match(said)


def test_equal_calls_are_taken_in_recorded_order() -> None:
    twins = [ComparedCall(1, "m", turns("go")), ComparedCall(2, "m", turns("go"))]
    matcher = Matcher(list(twins))
    assert [matcher.match(replace(twins[0])).recorded for _ in twins] == twins


def test_observations_are_counted_once() -> None:
    matcher = build_matcher(CHAIN)
    compared = []
    for call in CHAIN:
        match = matcher.match(replace(call, answer=None))
        assert match.recorded is not None
        match.recorded.answer = call.answer
        compared.append(match.compared)
    assert compared == [1, 1]
