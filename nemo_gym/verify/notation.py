r"""One spelling of a mathematical text: LaTeX and plain notation, Unicode symbols and the ways to write a space.

    normalize_spelling("2*pi"), normalize_spelling(r"2\times\pi")      2\cdot \pi
    normalize_spelling("x²"), normalize_spelling("x**2")               x^{2}

White space separates: `is_same_spelling("3 1/2", "31/2")` is false. It means nothing beside a symbol: `x + 1` is `x+1`.
"""

from __future__ import annotations

import re

from nemo_gym.verify._rewriting import Rewriting
from nemo_gym.verify.folding import fold_compatibility
from nemo_gym.verify.typesetting import strip_typesetting

__all__ = ["FUNCTION_NAMES", "is_same_spelling", "normalize_spelling"]

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_RAISED, _LOWERED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+"), re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_SYMBOLS = {
    "∞": r"\infty ", "π": r"\pi ", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ", "−": "-", "–": "-",
    "≤": r"\le ", "≥": r"\ge ", "≠": r"\neq ", "≈": r"\approx ", "±": r"\pm ", "∓": r"\mp ", "∈": r"\in ",
    "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", "°": r"^{\circ}", "θ": r"\theta ", "α": r"\alpha ",
    "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "φ": r"\phi ", "ω": r"\omega ", "σ": r"\sigma ", "μ": r"\mu ",
    "→": r"\to ", "≡": r"\equiv ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}",
    "’": "'", "′": "'", "\u2061": "", "\u200b": "",
}  # fmt: skip

_FUNCTIONS = ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec", "csc", "ln",
              "log", "exp", "min", "max", "gcd", "lcm")  # fmt: skip
_GREEK = ("alpha", "beta", "gamma", "delta", "theta", "lambda", "sigma", "omega", "phi", "mu")
_NAMES = {name: rf"\{name} " for name in (*_FUNCTIONS, *_GREEK)} | {
    "pi": r"\pi ", "Pi": r"\pi ", "infinity": r"\infty ", "inf": r"\infty ", "oo": r"\infty ",
}  # fmt: skip
FUNCTION_NAMES = frozenset({*_NAMES, "sqrt", "cbrt", "abs", "frac"})
"""Letters that are one name in plain notation, not a product and not a word."""

_REPLACEMENTS = Rewriting(
    (
        (r"\\[dtc]frac(?![a-zA-Z])", r"\\frac"),
        (r"\\[dt]binom(?![a-zA-Z])", r"\\binom"),
        (r"\\(?:leqslant|leq)(?![a-zA-Z])", r"\\le "),
        (r"\\(?:geqslant|geq)(?![a-zA-Z])", r"\\ge "),
        (r"\\ne(?![a-zA-Z])", r"\\neq "),
        (r"\\lt(?![a-zA-Z])", "<"),
        (r"\\gt(?![a-zA-Z])", ">"),
        (r"<=", r"\\le "),
        (r">=", r"\\ge "),
        (r"!=", r"\\neq "),
        (r"\\(?:varnothing|O)(?![a-zA-Z])", r"\\emptyset "),
        (r"\\(?:rightarrow|longrightarrow)(?![a-zA-Z])", r"\\to "),
        (r"\\dots(?![a-zA-Z])", r"\\ldots "),
        (r"\.\.\.|…", r"\\ldots "),
        (r"\{,\}", ","),
        (r"\\[,!;:](?=\d{3}(?!\d))", ""),
        (r"(?<!\\)\\[,!;: ]|\\q?quad(?![a-zA-Z])|~", " "),
        (rf"\\(?:text|mathrm)\s*\{{\s*({'|'.join(_FUNCTIONS)})\s*\}}", r"\\\1 "),
        (r"(?:^|(?<=[-+*/=(,]))\s*\{([a-zA-Z0-9]+)\}", r"\1"),
        (r"\\mathbb\s*([A-Z])", r"\\mathbb{\1}"),
        (
            r"\|\s*\\begin\s*\{array\}\s*\{[^{}]*\}((?:(?!\\end).)*)\\end\s*\{array\}\s*\|",
            r"\\begin{vmatrix}\1\\end{vmatrix}",
        ),
        (r"\\begin\s*\{(?:array\}\s*\{[^{}]*|(?:small|[bB])?matrix)\}", r"\\begin{pmatrix}"),
        (r"\\end\s*\{(?:array|(?:small|[bB])?matrix)\}", r"\\end{pmatrix}"),
        (r"[\[(]\s*(\\begin\{pmatrix\}(?:(?!\\end).)*\\end\{pmatrix\})\s*[\])]", r"\1"),
        (r"\A\s*\\langle(?![a-zA-Z])((?:[^\\]|\\(?![lr]angle))*+)\\rangle\s*\Z", r"(\1)"),
        (r"\A\s*<([^<>=]*,[^<>=]*)>\s*\Z", r"(\1)"),
        (r"\\pmod\s*(\w)", r"\\pmod{\1}"),
        (r"\\(?:colon|ratio)(?![a-zA-Z])", ":"),
        (r"\\cr(?![a-zA-Z])", r"\\\\"),
        (r"\\\\\s*\[[\d.]+\s*[a-z]{2}\]", r"\\\\ "),
        (r"\\\\\s*(?=\\end(?![a-zA-Z]))", ""),
        (r"\\begin\{pmatrix\}((?:(?!\\end|&|\\\\).)*)\\end\{pmatrix\}", r"\1"),
        (r"\\(?:times|ast|cdot)(?![a-zA-Z])", r"\\cdot "),
        (r"\\log\s*_\s*(?:\{\s*e\s*\}|e(?![a-zA-Z]))", r"\\ln "),
        (r"\*\*", "^"),
        (r"(?<!\^)\*", r"\\cdot "),
        (r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}"),
        (r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{"),
        (r"(\\frac\s*\{[^{}]*\})\s*(\d)", r"\1{\2}"),
        (r"\\sqrt\s*(\d|[a-zA-Z])", r"\\sqrt{\1}"),
        (r"√\s*(\d+(?:\.\d+)?|[a-zA-Z])", r"\\sqrt{\1}"),
        (r"√\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"(?<![\\a-zA-Z])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}"),
        (r"(?<![\\a-zA-Z])sqrt\s*\{", r"\\sqrt{"),
        (r"(?<![\\a-zA-Z])abs\s*\(([^()]*)\)", r"|\1|"),
        (r"\^\s*\(\s*([^()]*)\)", r"^{\1}"),
        (r"\^\s*([+-]?\d++(?:\.\d++)?)", r"^{\1}"),
        (r"_\s*(\d+)(?![\d}])", r"_{\1}"),
        (r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ", r"^{\\circ}"),
        (r"(?<=\d)[eE]([+-]?\d+)(?![\d.])", r"\\cdot 10^{\1}"),
        # Without a mark the parser adds a whole number and a rational one: 2\frac{1}{2}, but also 2\binom{5}{2}.
        (r"(?<=[\d)])\s*\(", r"\\cdot ("),
        (
            rf"(?<=[\d)])\s*(?=\\(?:{'|'.join(_FUNCTIONS)}|binom|sqrt|lfloor|lceil|sum|prod|int)(?![a-zA-Z]))",
            r"\\cdot ",
        ),
        (r"(?<=\))\s*(?=\\frac(?![a-zA-Z]))", r"\\cdot "),
    ),
    re.DOTALL,
)
_RUN = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]+")


def normalize_spelling(text: str) -> str:
    """Return `text` in one spelling. Runs in linear time for every replacement."""
    text = strip_typesetting(text)
    text = write_scripts(text)
    text = fold_compatibility("".join(_SYMBOLS.get(char, char) for char in text))
    text = _REPLACEMENTS.rewrite(text)
    text = _RUN.sub(lambda run: _NAMES.get(run[0], run[0]), text)
    return " ".join(text.split()).rstrip(" ,;.")


def write_scripts(text: str) -> str:
    """Return `text` with its raised and lowered characters in LaTeX: `x¹⁰` is `x^{10}`."""
    text = _RAISED.sub(lambda run: f"^{{{run[0].translate(_SUPERSCRIPTS)}}}", text)
    return _LOWERED.sub(lambda run: f"_{{{run[0].translate(_SUBSCRIPTS)}}}", text)


_SEPARATING = re.compile(r"(?<=\d) +(?=\d)|(?<=[^\W\d_]) +(?=[^\W\d_])")
_SEPARATOR = "\x1f"


def is_same_spelling(one: str, other: str) -> bool:
    """Return whether two texts differ at most in white space that separates nothing."""
    return _close_up(one) == _close_up(other)


def _close_up(text: str) -> str:
    text = _SEPARATING.sub(_SEPARATOR, " ".join(text.split()))
    return text.replace(" ", "")
