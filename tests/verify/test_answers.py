import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.verify.answer_boxes import last_boxed
from nemo_gym.verify.answers import (
    AnswerForm,
    final_answer,
    final_text,
    last_answer_line,
    last_assistant_text,
    last_tagged,
    strip_reasoning,
)
from nemo_gym.verify.matching import normalize
from nemo_gym.verify.numbers import read_quantity
from nemo_gym.verify.typesetting import strip_math_marks
from resources_servers.math_with_judge.math_equality import compare_plainly
from resources_servers.mcqa.choices import ANY_LETTER, ChoiceFormat, read_choice


def message(*texts: str, role: str = "assistant") -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "m", "role": role, "status": "completed", "content": parts}


def response(*items: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": list(items)}


CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
REASONING = {"type": "reasoning", "id": "s", "summary": [{"type": "summary_text", "text": "\\boxed{9}"}]}


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([message("one"), message("two")], "two"),
        ([message("a", "b")], "ab"),
        ([message("one"), CALL], "one"),
        ([message("one"), message("mine", role="user")], "one"),
        ([REASONING], ""),
        ([], ""),
        ([{**message(), "content": [{"type": "refusal", "refusal": "no"}]}], ""),
    ],
)
def test_the_last_assistant_message_is_read_from_json_and_from_objects(
    items: list[dict[str, Any]], text: str
) -> None:
    assert last_assistant_text(response(*items)) == text
    assert last_assistant_text(NeMoGymResponse.model_validate(response(*items))) == text


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("plain", "plain"),
        ("<think>\\boxed{1}</think>\n\\boxed{2}", "\\boxed{2}"),
        ("opened by the template</think> answer", "answer"),
        ("<think>cut by the length limit: \\boxed{1}", ""),
        ("first <think>a</think>second <think>b</think>third", "first second third"),
        ("<THINKING>a</THINKING>b", "b"),
        ("<think> I could write <think> here </think> answer", "answer"),
        ("answer <think> but then", "answer"),
        ("", ""),
    ],
)
def test_reasoning_is_not_part_of_the_answer(text: str, visible: str) -> None:
    assert strip_reasoning(text) == visible
    assert final_text(response(message(text))) == visible


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"\boxed{42}", "42"),
        (r"\boxed{1} so \boxed{2}", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a\}", None),
        (r"\boxed{5} and \boxed{unfinished", "5"),
        (r"{ \boxed{6}", "6"),
        (r"\boxed {7}", "7"),
        (r"\fbox{8}", "8"),
        ("\\boxed{\n9\n}", "9"),
        ("no box", None),
        ("boxed{1}", None),
        (r"It is \boxed{5}, not \boxed{6}", "5"),
        (r"It can't be $\boxed{6}$", None),
        (r"\boxed{5} rather than \boxed{6}", "5"),
        (r"\boxed{5} or \boxed{6}", "5 or 6"),
        (r"$\boxed{5}$, $\boxed{6}$", "5 , 6"),
        (r"\boxed{5}, \boxed{5}", "5"),
        (r"either \boxed{5} or maybe \boxed{6}", "5 or 6"),
    ],
)
def test_the_last_complete_box_counts(text: str, boxed: str | None) -> None:
    assert last_boxed(text) == boxed


@given(st.recursive(st.text("ab12+ ", max_size=5), lambda inner: st.builds("{{{}}}{}".format, inner, inner)))
def test_a_box_may_hold_any_balanced_text(content: str) -> None:
    assert last_boxed(f"so \\boxed{{{content}}}.") == content.strip()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> 5 </answer>", "5"),
        ("<answer>4</answer> or rather <answer>5</answer>", "5"),
        ("<answer>5", None),
        ("5</answer>", None),
    ],
)
def test_the_last_complete_answer_tag_counts(text: str, answer: str | None) -> None:
    assert last_tagged(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("He has 5.\n#### 5", "5"),
        ("so 2+2=4\nA: 90,000", "90,000"),
        ("Answer: 7", "7"),
        ("**Answer:** 7", "7"),
        ("**Answer**: `7`", "7"),
        ("The final answer is: $\\frac{1}{2}$.", "\\frac{1}{2}"),
        ("So the answer is 3.5.", "3.5"),
        ("The answer is 42. I am sure.", "42"),
        ("The answer is therefore 18.", "18"),
        ("The answer is, thus, 18.", "18"),
        ("Thus, the answer is 18, since 9*2=18.", "18"),
        ("The answer is 18 because 9 times 2 is 18.", "18"),
        ("The answer is $\\frac{1}{2}$, because it is.", "\\frac{1}{2}"),
        ("The answer is 7 since 1990", "7 since 1990"),
        ("Answer: Just because", "Just because"),
        ("Answer: 1\nNo, wait.\nAnswer: 2", "2"),
        ("Final Answer:\n\n18", "18"),
        ("answer = 2**3", "2**3"),
        ("The answer is $\\boxed{42}$. I hope the answer is correct.", "42"),
        ("Answer: 9, not \\boxed{42}", "9"),
        ("Answer: 9 or \\boxed{42}", "9 or \\boxed{42}"),
        ("The answer is:\n$$\nx = 42\n$$", "x = 42"),
        ("Answer:\n```text\n42\n```", "42"),
        ("Answer:\n- Paris", "Paris"),
        ("Answer: *Paris*", "Paris"),
        ("The answer is correct.", None),
        ("#### Conclusion\nnothing", None),
        ("A question without one.", None),
        ("Answer:", None),
        ("", None),
    ],
)
def test_answer_lines(text: str, answer: str | None) -> None:
    assert last_answer_line(text) == answer


def test_a_box_takes_precedence_over_a_tag_and_a_tag_over_a_line_unless_the_other_comes_later() -> None:
    text = "Answer: 1\n<answer>2</answer>\n\\boxed{3}\nAnswer: 4"
    assert final_answer(text) == ("4", AnswerForm.LINE)
    assert final_answer(text.removesuffix("Answer: 4")) == ("3", AnswerForm.BOXED)
    assert final_answer("Answer: 1\n<answer>2</answer>", [AnswerForm.TAG, AnswerForm.LINE]) == (
        "2",
        AnswerForm.TAG,
    )
    assert final_answer(text, [AnswerForm.BOXED]) == ("3", AnswerForm.BOXED)
    assert final_answer(text, [AnswerForm.LINE]) == ("4", AnswerForm.LINE)
    assert final_answer("\\boxed{} then nothing") is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"The first bag holds \boxed{12} marbles. The second one holds 8, so the final answer is 20.", "20"),
        (
            "\\boxed{7}\n\nActually, this is incorrect: I forgot to multiply by 2. The final answer is 14.",
            "14",
        ),
        (r"At first one gets \boxed{14}. But that counts each pair twice: **Answer: 7**", "7"),
        ("\\boxed{7}\n\nWait, it should be 14.", "14"),
        ("\\boxed{7}\n\nHmm, I made a mistake. 7*2 = 14, so there are 14 apples.", "14"),
        ("The answer is 7. No wait, it's 14.", "14"),
        ("Answer: 7\n\nScratch that. The total is 14.", "14"),
        ("<answer>7</answer>\nActually, that is not correct. <answer>14</answer>", "14"),
        ("Answer: 7\n\nThat is \\boxed{14} in base 3.", "14"),
        ("\\boxed{7}\n\nMy earlier answer was wrong.", None),
        ("\\boxed{7}\n\nWait, that's wrong.", None),
    ],
)
def test_the_last_statement_counts_and_one_that_is_taken_back_does_not(text: str, answer: str | None) -> None:
    found = final_answer(text)
    assert (found.text if found else None) == answer


@pytest.mark.parametrize(
    "words",
    [
        "Since 3+4=7, the check holds.",
        "Check: 3+4=7. That is right.",
        "A common mistake is to answer 14. This is incorrect because it counts twice.",
        "If we had counted twice, the answer is 14.",
        "The answer is reasonable.",
        "Thus the answer is 7 apples.",
        "The answer is about 7.2 before rounding.",
        "Some students say that the answer is 14.",
        "Wait, is that right? 3+4=7. Yes, it is right.",
        "Note that 14 is wrong, since it counts twice.",
        "I hope the answer is correct.",
    ],
)
@pytest.mark.parametrize("mark", ["\\boxed{7}", "<answer>7</answer>"])
def test_words_after_an_answer_that_explain_or_check_it_leave_it(mark: str, words: str) -> None:
    found = final_answer(f"{mark}\n\n{words}")
    assert found is not None
    assert found.text.startswith("7")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": 7}', "7"),
        ('{"reasoning": "3+4", "answer": "7"}', "7"),
        ('So:\n```json\n{"final_answer": "7"}\n```', "7"),
        ('{"answer": [1, 2]}', None),
        ('{"answer": null}', None),
        ('{"answer": 7', None),
        ('{"question": 7}', None),
    ],
)
def test_an_object_that_ends_the_text_states_its_answer(text: str, answer: str | None) -> None:
    found = final_answer(text, [AnswerForm.JSON])
    assert (found.text if found else None) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer to the question is 42.", "42"),
        ("The answer should be 42.\nAnswer: 41", "41"),
        ("The answer must be an integer.\n\\boxed{42}", "42"),
        ("## Final Answer\n42", "42"),
        ("The answer is clear: 42", "clear: 42"),
        ("\\boxed{Answer: 42}", "42"),
        ("<answer>$\\boxed{42}$</answer>", "42"),
    ],
)
def test_a_weak_mark_counts_only_without_another(text: str, answer: str) -> None:
    found = final_answer(text)
    assert found is not None
    assert found.text == answer


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("$x$", "x"),
        ("\\(x\\)", "x"),
        ("\\[ x \\]", "x"),
        ("$$x$$", "x"),
        ("$x$ and $y$", "$x$ and $y$"),
        ("$5", "$5"),
    ],
)
def test_math_marks_around_the_whole_text_are_removed(text: str, plain: str) -> None:
    assert strip_math_marks(text) == plain


LENGTH = 100_000
READERS: list[Callable[[str], object]] = [
    strip_reasoning,
    final_answer,
    read_quantity,
    normalize,
    lambda text: compare_plainly("x+1", text),
    *(lambda text, form=form: read_choice(text, ANY_LETTER, form) for form in ChoiceFormat),
]


@pytest.mark.parametrize(
    "piece",
    [
        "\\boxed{",
        "\\text{",
        "<think>",
        "answer ",
        "answer*",
        "answer is\n",
        " ",
        "\n",
        "!",
        "{",
        "}",
        "$",
        "\\",
        "#### ",
        "A: ",
        "and ",
    ],
)
def test_every_extractor_runs_in_linear_time(piece: str) -> None:
    tail = LENGTH // 2
    filling = (piece * LENGTH)[:LENGTH]
    texts = [
        filling,
        f"\\boxed{{{filling}x}}",
        f"Answer: {filling}x",
        f"####{filling}x",
        f"x{filling[:tail]}x{filling[:tail]}x",
    ]
    for read in READERS:
        for text in texts:
            started = time.process_time()
            read(text)
            assert time.process_time() - started < 10.0, (read, text[:40])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>**2048**</answer>", "2048"),
        ("La réponse est **81** (et non 18, qui serait la somme).", "81"),
        ("Answer: 81 (not 18, which is the sum)", "81"),
        ("La respuesta es $\\frac{3}{4}$, o sea, 0.75.", "$\\frac{3}{4}$ = 0.75"),
        ("The answer is 90, that is, 45 + 45.", "90 = 45 + 45"),
        ("Donc la réponse est $81$ !", "81"),
        ("The answer is 81!", "81!"),
        ("Answer: 7 (seven).", "7"),
        ("Answer: 7 (eight)", "7 (eight)"),
        ("The answer is not 6, as one may think, but 7.", "7"),
        ("The answer is not 6. It is 7.", "7"),
    ],
)
def test_words_beside_a_number_leave_its_value(text: str, answer: str) -> None:
    found = final_answer(text)
    assert found is not None
    assert found.text == answer


def test_the_json_object_that_ends_a_text_counts_and_not_one_that_it_quotes() -> None:
    found = final_answer('Given: `{"answer": 9}` was printed.\n\nAfter the fix:\n\n{"answer": 7}')
    assert found is not None
    assert found.text == "7"
