import pytest

from resources_servers.mcqa.choices import ANY_LETTER, ChoiceFormat, read_choice, read_options, stated_choice

OPTIONS = {
    "A": "Iron",
    "B": "Iron oxide",
    "C": "C. difficile",
    "D": "A polygenic risk score",
    "E": "U.S. law",
}


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{B}", "B"),
        (r"First \boxed{C}, no: \boxed{E}", "E"),
        (r"\boxed{ [C] }", "C"),
        (r"\boxed{\text{E}}", "E"),
        (r"\boxed{\text{(B)}}", "B"),
        (r"\boxed{$\mathbf{B}$}", "B"),
        (r"\boxed{B: Iron oxide}", "B"),
        (r"\boxed{\text{B) Iron oxide}}", "B"),
        (r"\boxed{B - Iron oxide}", "B"),
        (r"\boxed{C: C. difficile}", "C"),
        (r"\boxed{b}", None),
        (r"\boxed{A polygenic risk score}", None),
        (r"\boxed{Iron}", None),
        (r"\boxed{A, B}", None),
        (r"\boxed{A. B. C. D. E.}", None),
        (r"\boxed{A or B}", None),
        (r"\boxed{A: B}", None),
        (r"\boxed{X}", None),
        (r"\boxed{}", None),
        ("B", None),
        ("Answer: B", None),
        (r"\boxed{B", None),
    ],
)
def test_strict_boxed_takes_one_upper_case_letter_or_a_label(text: str, letter: str | None) -> None:
    assert read_choice(text, OPTIONS, ChoiceFormat.STRICT_BOXED) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{B}", "B"),
        (r"\boxed{iron  OXIDE}", "B"),
        (r"\boxed{Iron}", "A"),
        (r"\boxed{\text{a polygenic risk score}}", "D"),
        (r"\boxed{the U.S. law}", "E"),
        (r"\boxed{Iron or U.S. law}", None),
        (r"\boxed{Ironing}", None),
        (r"\boxed{Steel}", None),
        ("Iron oxide", None),
    ],
)
def test_lenient_boxed_also_takes_the_text_of_exactly_one_option(text: str, letter: str | None) -> None:
    assert read_choice(text, OPTIONS, ChoiceFormat.LENIENT_BOXED) == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: B", "B"),
        ("ANSWER: (b)", "B"),
        ("**Answer:** B", "B"),
        ("Answer: A\nOn second thought.\nAnswer: B", "B"),
        ("The answer is B.", "B"),
        ("Answer: B) Iron oxide", "B"),
        (r"Answer: \boxed{B}", "B"),
        ("Answer: iron oxide", "B"),
        ("Answer: U.S. law", "E"),
        ("Answer: A polygenic risk score", "D"),
        ("Answer: Steel", None),
        ("Answer: X", None),
        ("A: Iron\nB: Iron oxide", None),
        (r"\boxed{B}", None),
    ],
)
def test_an_answer_line_names_a_letter_or_an_option(text: str, letter: str | None) -> None:
    assert read_choice(text, OPTIONS, ChoiceFormat.ANSWER_LINE) == letter


def test_the_markdown_form_also_takes_a_letter_before_words() -> None:
    text = "**Answer**: B because rust"
    assert read_choice(text, OPTIONS, ChoiceFormat.ANSWER_LINE) is None
    assert read_choice(text, OPTIONS, ChoiceFormat.ANSWER_LINE_MARKDOWN) == "B"
    assert read_choice("Answer: Because", OPTIONS, ChoiceFormat.ANSWER_LINE_MARKDOWN) is None


@pytest.mark.parametrize(
    "text", ["B", "(b)", "Iron oxide", r"\boxed{iron oxide}", "<answer>B</answer>", "Answer: B, as said"]
)
def test_lenient_takes_any_form(text: str) -> None:
    assert read_choice(text, OPTIONS, ChoiceFormat.LENIENT) == "B"


@pytest.mark.parametrize(
    "text",
    [
        "B) Iron oxide",
        "B: Iron oxide",
        "B. Iron oxide",
        "(B) Iron oxide",
        "**B) Iron oxide**",
        "**B. iron oxide.**",
        "B - Iron oxide",
        "B (Iron oxide)",
        "[B] Iron oxide",
        "`B) Iron oxide`",
        "**B**: Iron oxide",
    ],
)
def test_lenient_takes_a_letter_with_its_text_as_the_whole_message(text: str) -> None:
    assert read_choice(text, OPTIONS, ChoiceFormat.LENIENT) == "B"
    assert read_choice(text, OPTIONS, ChoiceFormat.STRICT_BOXED) is None
    assert read_choice(text, OPTIONS, ChoiceFormat.ANSWER_LINE) is None


@pytest.mark.parametrize(
    "text",
    [
        "B) Iron",
        "Z) Iron oxide",
        "B) Iron oxide is wrong",
        "A) Iron\nB) Iron oxide",
        "B) Iron oxide or A) Iron",
        "not B) Iron oxide",
        "B) Iron oxide?",
        "B) Rust",
    ],
)
def test_lenient_takes_no_other_message_without_a_mark(text: str) -> None:
    assert read_choice(text, OPTIONS, ChoiceFormat.LENIENT) is None


def test_lenient_does_not_guess() -> None:
    assert read_choice("It may be A, B or C.", OPTIONS, ChoiceFormat.LENIENT) is None


@pytest.mark.parametrize(
    ("captured", "letter"), [("ب", "B"), ("ড", "C"), ("Ｄ", "D"), ("d", "D"), ("Z", None)]
)
def test_letters_of_translated_benchmarks_are_known(captured: str, letter: str | None) -> None:
    assert stated_choice(captured, OPTIONS) == letter


def test_an_option_that_is_itself_a_letter_is_named_by_its_text() -> None:
    assert stated_choice("B", {"A": "B", "B": "C"}) == "A"


def test_options_are_read_by_upper_case_letter_and_null_is_none() -> None:
    assert read_options([{"a": "x"}, {"B": None}, {"C": "y"}]) == {"A": "x", "C": "y"}
    assert set(ANY_LETTER) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@pytest.mark.parametrize(
    ("entries", "problem"),
    [([{"AB": "x"}], "'AB' is not a letter"), ([{"A": "x"}, {"a": "y"}], "A is listed twice")],
)
def test_wrong_options_are_named(entries: list[dict[str, str | None]], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_options(entries)


BARE = {"A": "Paris", "B": "Rome", "C": "Vitamin C"}


@pytest.mark.parametrize("form", list(ChoiceFormat))
@pytest.mark.parametrize(
    "text",
    [
        "Answer: B or A",
        "The answer is B or A.",
        "Answer: B, A",
        "Answer: B/A",
        "Answer: B and C",
        "Answer: (B) or (C)",
        "Answer: B isn't right",
        "Answer: B is not right",
        "The answer isn't B",
        "The answer is not B.",
        "The answer is a mystery",
        "The answer is: A mystery",
        "Answer: not Rome",
        "Answer: Rome or Paris",
        "Answer: either Rome or Paris",
        r"\boxed{B) or C)}",
        r"\boxed{B or A}",
        r"\boxed{B, C}",
        r"\boxed{not B}",
        r"\boxed{\text{not Rome}}",
        r"\boxed{Rome or Paris}",
        r"\boxed{B: Rome or Paris}",
        r"\boxed{B isn't right}",
        "<answer>B or A</answer>",
        "<answer>not Rome</answer>",
    ],
)
def test_several_options_a_denial_and_an_article_pick_nothing(text: str, form: ChoiceFormat) -> None:
    assert read_choice(text, BARE, form) is None


@pytest.mark.parametrize(
    "text",
    ["Answer: C: Vitamin C", "Answer: C because A is wrong", "Answer: C) Vitamin C", r"\boxed{C: Vitamin C}"],
)
def test_a_letter_with_its_text_or_a_reason_is_a_choice(text: str) -> None:
    assert read_choice(text, BARE, ChoiceFormat.LENIENT) == "C"
