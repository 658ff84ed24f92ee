"""Make answers from the text of a question alone: its lines, numbers, quotations, premises and boards.

    make_answers("Make 24 using 4, 8, 6, 2.")["number 0"]  # "24"

A verifier that such an answer wins rewards the form of an answer, and not its content (`lucky_answers`). Each answer
has the name of its recipe, so that the scores of one recipe can be compared over many questions. Nothing here solves a
question: a recipe copies, joins, repeats or empties parts of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

Recipe = tuple[str, str]
"""The name of a recipe, and its answer."""

_FIRST, _LAST = range(6), range(-4, 0)
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?!\w)")
_ITEM = re.compile(r"[\s.]*(?:\d+[.):]|[-*•])\s*(\S.*)")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|'([^'\n]+)'|`([^`\n]+)`|“([^”\n]+)”")
_CHOICE = re.compile(r"(\w+)/(\w+)")
_BRACKETS = re.compile(r"\[[^\[\]\n]*\]|\{[^{}]*\}|\([^()\n]*\)")
_ARRAYS = re.compile(r"\[\s*\[[^\]]*\](?:\s*,\s*\[[^\]]*\])*\s*\]")
_CLOCK = re.compile(r"\d\d?:\d\d(?::\d\d(?:\.\d+)?)?")
_EXPRESSION = re.compile(r"(?<!\w)[(\d][\w\s()+\-*/^<>&|~.]*[+\-*/^<>&|][\w\s()+\-*/^<>&|~.]*[\w)]")
_CAPITALS = re.compile(r"\b[A-Z]{2,}\b")
_BLANK = re.compile(r"(?<![^\s|])[_.?*](?![^\s|])")


def make_answers(question: str) -> dict[str, str]:
    """Return the answers that can be made from `question`, by the names of their recipes."""
    makers: Sequence[Callable[[str], Iterator[Recipe]]] = (
        _copy_texts, _copy_numbers, _write_arithmetic, _join_premises, _copy_boards, _change_letters,
    )  # fmt: skip
    return {name: answer for make in makers for name, answer in make(question)}


def _name_parts(kind: str, parts: Sequence[str]) -> Iterator[Recipe]:
    """Yield the first and the last parts, by their places."""
    for place in (*_FIRST, *_LAST):
        if -len(parts) <= place < len(parts):
            yield f"{kind} {place}", parts[place]


def _copy_texts(question: str) -> Iterator[Recipe]:
    yield "question", question
    yield "after the colon", question.rstrip().rpartition(":")[2].strip()
    yield from _name_parts("line", _find_lines(question))
    yield from _name_parts(
        "paragraph", [part.strip() for part in re.split(r"\n\s*\n", question) if part.strip()]
    )
    yield from _name_parts("sentence", re.split(r"(?<=[.?!])\s+", question.strip()))
    yield from _name_parts("word", re.findall(r"[^\W\d_]+", question)[-4:])
    quoted = ["".join(groups) for groups in _QUOTED.findall(question)]
    yield from _name_parts("quotation", quoted)
    brackets = _BRACKETS.findall(question)
    yield from _name_parts("brackets", brackets)
    yield from _name_parts("in brackets", [text[1:-1] for text in brackets])
    for kept in (1, 2):
        chosen = [_CHOICE.sub(rf"\{kept}", text) for text in quoted if _CHOICE.search(text)]
        yield from _name_parts(f"choice {kept} in quotation", chosen)
    yield from _name_parts("time", _CLOCK.findall(question))


def _find_lines(question: str) -> list[str]:
    return [line.strip() for line in question.splitlines() if line.strip()]


def _copy_numbers(question: str) -> Iterator[Recipe]:
    numbers = _NUMBER.findall(question)
    yield from _name_parts("number", numbers)
    if numbers:
        for separator in (" ", ", ", " × ", " + ", " * "):
            yield f"numbers with {separator!r}", separator.join(numbers)
        yield "list of numbers", f"[{', '.join(numbers)}]"
    for place in (0, -1) if numbers else ():
        for form in ("1 × {}", "{} × 1", "{} days", "[{}]", "{}.0", "x = {}"):
            yield f"{form} of number {place}", form.format(numbers[place])


def _write_arithmetic(question: str) -> Iterator[Recipe]:
    """Yield expressions whose value is a number of the question, in numbers that it does not offer, and in symbols."""
    numbers = _NUMBER.findall(question)
    yield from _name_parts(
        "expression", [found[0].strip().replace("^", "**") for found in _EXPRESSION.finditer(question)]
    )
    for place in range(min(len(numbers), 3)):
        target, others = numbers[place], [number for other, number in enumerate(numbers) if other != place]
        yield f"number {place} times 1", f"{target}*1*1*1"
        for count in (4, 5, 6):
            rest = others[:count]
            yield f"number {place} and {count} others times 0", f"({'+'.join(rest)})*0+{target}"
            ones = "+".join(["x/x"] * min(abs(int(float(target))), 450))
            yield f"number {place} of x/x, {count} others times 0", f"({'+'.join(rest)})*(x-x)+{ones}"


def _join_premises(question: str) -> Iterator[Recipe]:
    """Yield the items of a list, and statements that follow from them by their form."""
    items = [match[1].strip() for line in question.splitlines() if (match := _ITEM.fullmatch(line))]
    yield from _name_parts("item", items)
    if items:
        first, last = f"({items[0]})", f"({items[-1]})"
        yield "all items", " ∧ ".join(f"({item})" for item in items)
        yield "two items", f"{last} ∧ {first}"
        yield "any item", " ∨ ".join(f"({item})" for item in items)
        yield "item twice", f"{first} ∧ {first}"
        yield "item, doubly denied", f"¬¬{first}"
        yield "item implies item", f"{first} → {first}"
        yield "item and a truth", f"{first} ∧ (P ∨ ¬P)"
        yield "item implied", f"{last} → {first}"


def _copy_boards(question: str) -> Iterator[Recipe]:
    """Yield the last board of the question, as it is, empty, and with its blanks filled."""
    boards = [found for found in map(_read_arrays, _ARRAYS.findall(question)) if found]
    if boards:
        board = boards[-1]
        yield "arrays", json.dumps(board)
        for cell in (0, 1):
            yield f"arrays of {cell}", json.dumps([[cell] * len(row) for row in board])
    rows = _find_rows(question)
    if rows:
        yield "board", "\n".join(rows)
        for digit in "0123456789":
            yield f"board with {digit} for blanks", "\n".join(_BLANK.sub(digit, row) for row in rows)
        for digit in "01":
            yield f"board of {digit}", "\n".join(" ".join(digit for _ in row.split()) for row in rows)
        yield "board as arrays", json.dumps([row.split() for row in rows])
        yield "rows joined", " ".join(rows)
        yield "rows in reverse", "\n".join(reversed(rows))


def _read_arrays(text: str) -> list[list[object]]:
    try:
        board = json.loads(text)
    except ValueError:
        return []
    return [row for row in board if isinstance(row, list)]


def _find_rows(question: str) -> list[str]:
    """Return the longest block of lines with equally many parts; lines without letters or digits count with them."""
    best: list[str] = []
    block: list[str] = []
    for line in [*question.splitlines(), "end of the last block"]:
        parts = line.split()
        is_row = len(parts) > 1 and all(len(part) <= 2 for part in parts)
        if (not parts and block) or (is_row and (not block or len(parts) == len(block[0].split()))):
            block.append(line)
        else:
            best = max(best, block, key=len)
            block = [line] if is_row else []
    while best and not best[-1].strip():
        best.pop()
    return best if len(best) > 1 else []


def _change_letters(question: str) -> Iterator[Recipe]:
    """Yield the steps from one word in capitals to another, letter by letter, whatever the words between."""
    words = [word for word in _CAPITALS.findall(question) if len(word) > 2]
    if len(words) > 1 and len(words[0]) == len(words[1]):
        start, end = words[:2]
        places = range(len(start) + 1)
        yield "letter by letter", ",".join(dict.fromkeys(end[:at] + start[at:] for at in places))
        backwards = dict.fromkeys(start[:at] + end[at:] for at in reversed(places))
        yield "letter by letter from the end", ",".join(backwards)
    if words:
        yield (
            "letters as numbers",
            ",".join(f"{char}={place % 10}" for place, char in enumerate(dict.fromkeys("".join(words)))),
        )
