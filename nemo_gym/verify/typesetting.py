r"""LaTeX that changes the look of an answer and not its meaning: colours, weights, sizes, environments, extra braces.

    strip_typesetting(r"\textcolor{red}{42}"), strip_typesetting(r"\begin{aligned}42\end{aligned}")      42
    strip_typesetting(r"{x+y}"), strip_typesetting(r"\boldsymbol{x+y}")                                  x+y

Commands for words become `\text{…}`: `\textit{no}` and `\emph{no}` are `\text{no}`. Those for upright, bold and italic
letters become `\mathrm{…}`.
"""

from __future__ import annotations

import re

from nemo_gym.verify._rewriting import Rewriting

__all__ = ["strip_braces", "strip_math_marks", "strip_text_command", "strip_typesetting", "unwrap_text"]

MAX_LAYERS = 20
"""Layers of braces, boxes and infix fractions that are removed from one answer."""

_ROWS = r"(?P<name>(?:align(?:ed)?|gather(?:ed)?|split|multline|equation|displaymath|math|cases)\*?)"
_LOOKS = Rewriting(
    (
        (r"\\(?:text)?color\s*(?:\[\w*\])?\s*\{[^{}]*\}|\\f?colorbox\s*\{[^{}]*\}", ""),
        (r"\\(?:text(?:bf|it|rm|sf|tt|sc|sl|up|md|normal)|emph|[mh]box|operatorname)(?=\s*\{)", r"\\text"),
        (r"\{\s*\\(?:rm|bf|it|sf|tt|sc)(?![a-zA-Z])\s*([^{}]*)\}", r"\\text{\1}"),
        (r"\\rm(?=\s*\{)", r"\\text"),
        (r"\\math(?:bf|it|sf|tt|normal)(?=\s*\{)", r"\\mathrm"),
        (r"\\(?:boldsymbol|bm|pmb|underline)(?=\s*\{)", ""),
        (r"\\(?:tiny|small|large|Large|LARGE|huge|Huge|rm|bf|it|scriptstyle)(?![a-zA-Z])", ""),
        (
            r"\\begin\s*\{array\}\s*\{[^{}]*\}((?:(?!\\end).)*)\\end\s*\{array\}\s*\\right\s*\.",
            r"\\begin{cases}\1\\end{cases}\\right.",
        ),
        (r"\\left\s*\\(?:\{|lbrace)\s*(\\begin\b.*?\\end\s*\{[a-z*]+\})\s*\\right\s*\.", r"\1"),
        (r"\\(?:left|right)\s*\.|\\(?:left|right|middle|[bB]igg?[lrm]?)(?![a-zA-Z])", ""),
        (r"\\(?:displaystyle|textstyle|limits|!)(?![a-zA-Z])", ""),
        (r"\\[hv]?phantom\s*\{[^{}]*\}", ""),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\lbrack(?![a-zA-Z])", "["),
        (r"(?<!\\)\\\Z", ""),
        (r"\\rbrack(?![a-zA-Z])", "]"),
        (r"\\[lr]?vert(?![a-zA-Z])", "|"),
    ),
    re.DOTALL,
)
_ENVIRONMENT = re.compile(
    rf"\\begin\s*\{{{_ROWS}\}}(?:\[\w\])?(?P<rows>.*?)\\end\s*\{{(?P=name)\}}", re.DOTALL
)
_RELATION = r"(?:[=<>]|\\(?:leq?|geq?|neq?|approx)(?![a-zA-Z]))"
_COLUMN = re.compile(rf"&(?!\s*{_RELATION})")
_FRACTION_OF_UNITS = re.compile(
    r"\\[dt]?frac\s*\{\s*([\d.,]*)\s*\\(?:text|mathrm)\s*\{([^{}]*)\}\s*\}"
    r"\s*\{\s*\\(?:text|mathrm)\s*\{([^{}]*)\}\s*\^?\s*\{?\s*(\d?)\s*\}?\s*\}"
)
_INFIX = re.compile(r"\\(?P<name>over|choose)(?![a-zA-Z])")
_MARKED_NUMBER = re.compile(
    r"\A(?:\$(?=[^$]*\$)|\\\()(?P<number>[^$]+?)(?:\$|\\\))\s*(?P<unit>[^\W\d_][^$\\]*)\Z"
)
"""Math marks around the number alone: `$18$ dollars`."""
_LAYERS = ("{", "\\mathrm{", "\\boxed{", "\\fbox{")


def strip_typesetting(text: str) -> str:
    """Return `text` without math marks, typesetting and the braces around it."""
    text = strip_math_marks(text).replace("{:}", ":")
    text = _MARKED_NUMBER.sub(r"\g<number> \g<unit>", text) if text[:1] in ("$", "\\") else text
    if "\\" in text:
        text = _LOOKS.rewrite(text)
        text = _FRACTION_OF_UNITS.sub(r"\1\\text{ \2/\3\4}", _ENVIRONMENT.sub(_join_rows, text))
        text = _write_fractions(text)
    if "{{" in text:
        text = _strip_double_braces(text)
    for _ in range(MAX_LAYERS):
        inner = _strip_layer(text)
        if inner == text:
            break
        text = inner
    return text


def strip_braces(text: str) -> str:
    """Return `text` without the pair of braces around it."""
    return _strip_around(text.strip(), "{")


def strip_text_command(text: str) -> str:
    r"""Return the content of the `\text{…}` that encloses all of `text`."""
    return _strip_around(text.strip(), "\\text{")


def _join_rows(environment: re.Match[str]) -> str:
    """Return the rows as a list of equations; a row that starts with a relation continues the last one.

    Columns that don't stand at a relation are the cases of a function, and stay.
    """
    rows = environment["rows"]
    if "\\begin" in rows or (environment["name"] == "cases" and _COLUMN.search(rows)):
        return environment[0]
    joined = ""
    for row in rows.replace("&", " ").split("\\\\"):
        mark = " " if not joined or re.match(rf"\s*{_RELATION}", row) else ", "
        joined += mark + row.strip() if row.strip() else ""
    return joined.strip()


def _strip_layer(text: str) -> str:
    text = strip_math_marks(text)
    for opening in _LAYERS:
        text = _strip_around(text, opening)
    return text


def _strip_around(text: str, opening: str) -> str:
    if not (text.startswith(opening) and text.endswith("}")):
        return text
    start = len(opening) - 1
    return text[start + 1 : -1].strip() if _pair_braces(text).get(start) == len(text) - 1 else text


def _pair_braces(text: str) -> dict[int, int]:
    """Return the position of the closing brace of each opening one."""
    pairs, open_braces = {}, []
    for brace in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if brace[0] == "{":
            open_braces.append(brace.start())
        elif brace[0] == "}" and open_braces:
            pairs[open_braces.pop()] = brace.start()
    return pairs


def _strip_double_braces(text: str) -> str:
    pairs = _pair_braces(text)
    double = [start for start in pairs if pairs.get(start + 1) == pairs[start] - 1]
    removed = {*double, *(pairs[start] for start in double)}
    return "".join(char for position, char in enumerate(text) if position not in removed) if removed else text


def _write_fractions(text: str) -> str:
    r"""Write `{a \over b}` as `\frac{a}{b}` and `{n \choose k}` as `\binom{n}{k}`."""
    for _ in range(MAX_LAYERS):
        infix = _INFIX.search(text)
        if infix is None:
            break
        around = [(start, end) for start, end in _pair_braces(text).items() if start < infix.start() < end]
        start, end = max(around, default=(-1, len(text)))
        command = "frac" if infix["name"] == "over" else "binom"
        above, below = text[start + 1 : infix.start()].strip(), text[infix.end() : end].strip()
        text = f"{text[: max(start, 0)]}\\{command}{{{above}}}{{{below}}}{text[end + 1 :]}"
    return text


_TEXT_COMMAND = (
    r"\\(?:text(?:bf|it|rm|sf|tt|up|sc|normal)?|math(?:rm|bf|it|sf|tt|normal)|boldsymbol|bm|mbox|hbox|emph|underline"
    r"|operatorname)"
)
_TEXT_BLOCK = re.compile(rf"{_TEXT_COMMAND}\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}")


def unwrap_text(text: str) -> str:
    r"""Remove `\text{…}`, `\mathbf{…}` and similar commands around words, also nested ones."""
    for _ in range(2):
        text = _TEXT_BLOCK.sub(r"\1", text)
    return text


_MATH_MARKS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))


def strip_math_marks(text: str) -> str:
    r"""Remove the `$…$`, `\(…\)` or `\[…\]` that encloses all of `text`."""
    text = text.strip()
    for opening, closing in _MATH_MARKS:
        if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
            inner = text[len(opening) : -len(closing)]
            if opening not in inner:
                return inner.strip()
    return text
