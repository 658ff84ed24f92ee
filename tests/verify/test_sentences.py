"""The sentences of a text."""

from __future__ import annotations

import pytest

from nemo_gym.verify.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It is 3.5 m.\n\nSo e.g. 4.", ["It is 3.5 m.", "So e.g. 4."]),
        ("Ans. (D)", ["Ans. (D)"]),
        ("所以选 F。对吗？", ["所以选 F。", "对吗？"]),
        ("B\n\nLet me know if you have other questions!", ["B"]),
        ("It is 5. I hope this helps.", ["It is 5."]),
        ("---\n***", []),
        ("", []),
    ],
)
def test_sentences_end_at_their_marks_and_lines_and_politeness_is_none(
    text: str, sentences: list[str]
) -> None:
    assert split_sentences(text) == sentences
