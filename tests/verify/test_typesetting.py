"""LaTeX that changes the look of an answer and not its meaning."""

from __future__ import annotations

import pytest

from nemo_gym.verify.typesetting import MAX_LAYERS, strip_braces, strip_text_command, strip_typesetting


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\textcolor{red}{42}", "42"),
        (r"{\color[rgb]{1,0,0} 42}", "42"),
        (r"\begin{aligned}42\end{aligned}", "42"),
        (r"\begin{aligned}x&=2+3\\&=5\end{aligned}", "x =2+3 =5"),
        (r"\begin{cases}x=1\\y=2\end{cases}", "x=1, y=2"),
        (r"\begin{cases}x&x>0\\0&x<0\end{cases}", r"\begin{cases}x&x>0\\0&x<0\end{cases}"),
        (r"\left\{\begin{array}{l}x=1\\y=2\end{array}\right.", "x=1, y=2"),
        ("{{x+y}}", "x+y"),
        ("{1}{2}", "{1}{2}"),
        (r"\{1,2\}", r"\{1,2\}"),
        (r"\lbrace 1,2\rbrace", r"\{ 1,2\}"),
        (r"x^{{2}}", "x^{2}"),
        (r"{7 \over 3}", r"\frac{7}{3}"),
        (r"1+{n \choose 2}", r"1+\binom{n}{2}"),
        (r"\textit{no}", r"\text{no}"),
        (r"{\rm B}", r"\text{B}"),
        (r"\mathbf{B}", "B"),
        (r"\boldsymbol{x}+\mathbf{y}", r"{x}+\mathrm{y}"),
        (r"5\,\frac{\text{m}}{\text{s}^2}", r"5\,\text{ m/s2}"),
        (r"$\displaystyle{\boxed{5}}$", "5"),
    ],
)
def test_the_look_of_an_answer_is_removed(text: str, expected: str) -> None:
    assert strip_typesetting(text) == expected


def test_the_command_around_a_whole_text_is_removed() -> None:
    assert strip_text_command(r"\text{(B)}") == "(B)"
    assert strip_text_command(r"\text{a}+\text{b}") == r"\text{a}+\text{b}"
    assert strip_braces("{x}") == "x"


def test_layers_beyond_the_limit_stay() -> None:
    nested = r"\boxed{" * (MAX_LAYERS + 60) + "5" + "}" * (MAX_LAYERS + 60)
    assert strip_typesetting(nested) != "5"
