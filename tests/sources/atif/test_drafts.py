"""Items are put into the step of their call."""

from __future__ import annotations

from nemo_gym.sources.atif.drafts import Drafts, StepPart, group_hidden, is_hidden
from nemo_gym.tokens.records import TokenForm
from tests.export.rows import call, output, text, thought
from tests.sources.atif.trajectory_rows import record_items


def test_an_answer_ends_where_an_output_follows_and_a_late_output_goes_to_its_call() -> None:
    drafts = Drafts()
    items = [thought("a"), call("x", "1"), text("b"), output("late", "1"), text("c")]
    drafts.add_all("output", items)
    assert [[index for _, index, _ in draft.ordered()] for draft in drafts.steps] == [[0, 1, 3], [2], [4]]
    assert [place for place, _, _ in drafts.steps[0].ordered()] == [
        StepPart.REASONING,
        StepPart.CALL,
        StepPart.OUTPUT,
    ]


def test_with_records_an_answer_ends_with_its_record() -> None:
    drafts = Drafts()
    drafts.add_all(
        "output", [{**text("a"), "_ng_tokens": {}}, call("x", "1"), {**text("b"), "_ng_tokens": {}}]
    )
    assert [len(draft.items) for draft in drafts.steps] == [1, 1, 1]


def test_hidden_calls_are_grouped_by_conversation() -> None:
    drafts = Drafts()
    items = record_items(TokenForm.PACKED)
    drafts.add_all("output", items)
    assert [index for index, _ in drafts.hidden] == [2, 4]
    assert all(is_hidden(items[index]) for index in (2, 4))
    assert [[index for index, _ in group] for group in group_hidden(drafts.hidden)] == [[2, 4]]
