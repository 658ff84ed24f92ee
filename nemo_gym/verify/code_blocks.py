"""Extraction of the code in an answer, and its combination with the task's prompt into a program."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from textwrap import indent
from typing import NamedTuple

__all__ = ["PYTHON_LANGUAGES", "code_blocks", "complete_programs", "final_code", "runnable"]


class CodeBlock(NamedTuple):
    """A fenced block of Markdown."""

    language: str
    """The first word after the opening fence, in lower case; "" when there is none."""
    text: str


_FENCE = re.compile(r"^[ \t]{0,3}(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n`]*+)$", re.MULTILINE)
"""The quantifiers are possessive: a long line takes linear time."""


MAX_FENCES = 10_000
"""A text with more fences has no blocks, so that no answer holds the event loop."""
MAX_CODE_CHARS = 1 << 18
"""Longer code is not run."""


def code_blocks(text: str) -> list[CodeBlock]:
    """Return the fenced blocks of `text`, in order. A block that is never closed extends to the end."""
    blocks: list[CodeBlock] = []
    opening: re.Match[str] | None = None
    for number, line in enumerate(_FENCE.finditer(text)):
        if number == MAX_FENCES:
            return []
        if opening is None:
            opening = line
        elif line["fence"].startswith(opening["fence"]) and not line["info"].strip():
            blocks.append(_block(opening, text[opening.end() + 1 : line.start()]))
            opening = None
    if opening is not None:
        blocks.append(_block(opening, text[opening.end() + 1 :]))
    return blocks


def _block(opening: re.Match[str], text: str) -> CodeBlock:
    words = opening["info"].split()
    return CodeBlock(words[0].lower() if words else "", text)


def final_code(text: str, languages: Collection[str]) -> str | None:
    """Return the code of an answer: its last block in one of `languages`, else its last block without a language.

    All of `text` counts as code when it has no fence. Returns None when all blocks are in other languages, when there
    is no text, and when the code is longer than `MAX_CODE_CHARS`.
    """
    blocks = code_blocks(text) or [CodeBlock("", text)]
    for wanted in (languages, ("",)):
        found = [block.text for block in blocks if block.language in wanted and block.text.strip()]
        if found:
            return found[-1] if len(found[-1]) <= MAX_CODE_CHARS else None
    return None


PYTHON_LANGUAGES = ("python", "python3", "py")


def complete_programs(prompt: str, code: str) -> tuple[str, ...]:
    """Return the possible combinations of `prompt`, the beginning of a function, with `code`. The first that compiles
    is the program.

    Code that defines the function itself follows the prompt, whose imports and helpers it may use. Other code is the
    rest of the function's body, with or without its indentation. Untrusted code is not parsed here, because some
    programs crash the parser.
    """
    bodies = (code, f"    {code}", indent(code, "    "))
    return (f"{runnable(prompt)}\n\n{code}", *(f"{prompt}{body}" for body in bodies))


def runnable(prompt: str) -> str:
    """Return `prompt` as executable code: a function without a body gets an empty one."""
    with_body = f"{prompt.rstrip()}\n    pass\n"
    return with_body if not _compiles(prompt) and _compiles(with_body) else prompt


def _compiles(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True
