import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.mock_engine.tokenizer import MARKS, PairTokenizer, cut, pad

TOKENIZER = PairTokenizer()
TEXT = st.lists(st.one_of(st.text(), st.sampled_from(MARKS))).map("".join)


@given(TEXT)
def test_decoding_gives_the_encoded_text_back(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(TEXT)
def test_counting_agrees_with_encoding(text: str) -> None:
    assert TOKENIZER.count(text) == len(TOKENIZER.encode(text))


@given(TEXT, st.sampled_from(MARKS), TEXT)
def test_what_stands_between_marks_has_the_same_ids_everywhere(before: str, mark: str, after: str) -> None:
    assert TOKENIZER.encode(before + mark + after) == [
        *TOKENIZER.encode(before),
        *TOKENIZER.encode(mark),
        *TOKENIZER.encode(after),
    ]


@given(TEXT, st.data())
def test_a_cut_text_has_exactly_the_tokens_it_was_cut_at(text: str, data: st.DataObject) -> None:
    tokens = data.draw(st.integers(0, TOKENIZER.count(text)))
    assert TOKENIZER.count(cut(TOKENIZER, text, tokens)) == tokens


def test_a_cut_inside_a_character_shows_a_question_mark_instead_of_half_of_it() -> None:
    assert cut(TOKENIZER, "ab€", 2) == "ab?"


@given(st.text(), st.integers(0, 200))
def test_a_padded_text_starts_with_the_text_and_has_at_least_so_many_tokens(text: str, tokens: int) -> None:
    padded = pad(TOKENIZER, text, tokens)
    assert padded.startswith(text)
    assert TOKENIZER.count(padded) == max(tokens, TOKENIZER.count(text))


def test_every_id_of_the_vocabulary_and_no_other_can_be_decoded() -> None:
    TOKENIZER.decode(range(TOKENIZER.vocabulary_size))
    with pytest.raises(ValueError, match="outside the vocabulary"):
        TOKENIZER.decode([TOKENIZER.vocabulary_size])
