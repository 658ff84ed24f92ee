"""The expected answer of a task row, its type, and the form in which the task wants it.

The type is found from the row's members: options beside an expected letter make a choice, a text that is a number makes
a number. A row can declare it with the member `answer_type`, one of the values of `AnswerType`; a type that the row's
answer cannot have is refused. Another value is the word of another format: it is not used, and noted. A row whose
answer is not found has the type UNKNOWN: then only attempts that no verifier may accept are made, and those that are
declared beside the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json
from nemo_gym.rows.compose import attach_metadata
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params, read_verifier_metadata

_GOLD_KEYS = (
    "expected_answer", "answer", "ground_truth", "target", "reference_answer", "gold", "correct_answer", "label",
    "expected", "solution",
)  # fmt: skip
_TYPE_KEY = "answer_type"
_TEST_KEYS = ("unit_tests", "tests", "test_cases", "test")
_FUNCTION_KEYS = ("entry_point", "function", "function_name", "fn_name")
_OUTPUT_KEYS = ("output", "expected", "expected_output", "result")
_SET = re.compile(r"\\?\{([^{}\\]+(?:,[^{}\\]+)+)\\?\}")
"""A set of plain elements: `{1, 2}`, or with the braces of LaTeX."""
_CASE = re.compile(
    r"\b(?:(?:lower|upper|letter|swap\w*)[ -]?case|the case of|capital letters?|capitali[sz]e)\b", re.I
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")


class AnswerType(StrEnum):
    """The types of expected answers."""

    NUMBER = "number"
    EXPRESSION = "expression"
    CHOICE = "choice"
    SET = "set"
    TEXT = "text"
    JSON = "json"
    SQL = "sql"
    CALLS = "calls"
    CODE = "code"
    UNKNOWN = "unknown"


class WrittenForm(StrEnum):
    """Where a task wants the answer to stand."""

    BOXED = "boxed"
    TAGS = "tags"
    SQL_BLOCK = "sql block"
    JSON_BLOCK = "json block"
    FINAL = "final answer"
    LINE = "line"
    PLAIN = "plain"

    def write(self, answer: str) -> str:
        """Return the text of an attempt with this answer."""
        match self:
            case WrittenForm.BOXED:
                return f"\\boxed{{{answer}}}"
            case WrittenForm.TAGS:
                return f"<answer>{answer}</answer>"
            case WrittenForm.SQL_BLOCK:
                return f"```sql\n{answer}\n```"
            case WrittenForm.JSON_BLOCK:
                return f"```json\n{answer}\n```"
            case WrittenForm.FINAL:
                return f"Final answer: {answer}"
            case WrittenForm.LINE:
                return f"Answer: {answer}"
        return answer


@dataclass(frozen=True, slots=True)
class ExpectedAnswer:
    """The right answer of a row."""

    type: AnswerType
    gold: str = ""
    """The first right answer, as text."""
    all_gold: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    """The letters and texts of a choice."""
    value: Any = None
    """The JSON value, or the calls."""
    is_exact: bool = True
    """False where the row says that case does not matter."""
    is_case_fixed: bool = False
    """True where the row or its prompt says that case matters."""
    is_strict: bool = False
    """True where the row says that the answer must have exactly one spelling."""


UNKNOWN, CODE = ExpectedAnswer(AnswerType.UNKNOWN), ExpectedAnswer(AnswerType.CODE)
"""Answers of which the row has none: of an unknown type, and code that tests decide on."""


def find_answer(row: AnyRow) -> ExpectedAnswer:
    """Return the expected answer of a task row.

    A declared type that does not exist is the word of another format, and not used. Raises `ConfigError` if the row
    declares a type that its answer cannot have.
    """
    members = {**read_verifier_metadata(row), **row}
    key = "sql" if isinstance(members.get("sql"), str) else None
    key = key or next((key for key in _GOLD_KEYS if members.get(key) not in (None, "", [])), None)
    key = key or _find_expected_member(row, members)
    gold: Any = None if key is None else members[key]
    if members.get(_TYPE_KEY) in list(AnswerType):
        return _build_declared(members, gold)
    if key == "sql":
        return ExpectedAnswer(AnswerType.SQL, gold, (gold,))
    if members.get("schema_type", "json") != "json":
        return UNKNOWN  # a value that is to be written in another language
    if key is None and read_params(row).get("tools") and any(members.get(each) == [] for each in _GOLD_KEYS):
        return ExpectedAnswer(AnswerType.CALLS, value=[])  # nothing is to be done
    if isinstance(calls := _read_calls(gold), list):
        return ExpectedAnswer(AnswerType.CALLS, value=calls)
    if isinstance(gold, dict):
        return ExpectedAnswer(AnswerType.JSON, value=gold)
    if any(members.get(each) for each in _TEST_KEYS):
        return CODE
    return _build_texts(members, gold) or UNKNOWN


def _find_expected_member(row: AnyRow, members: Mapping[str, Any]) -> str | None:
    """Return the one member such as `expected_date` or `expected_calls` that is a plain value or a list of calls.

    In a row with tools a plain value may be of their state, so it is none.
    """
    has_tools = bool(read_params(row).get("tools"))
    found = [
        key
        for key, value in members.items()
        if key.startswith("expected_") and (_read_calls(value) if has_tools else _write(value))
    ]
    return found[0] if len(found) == 1 else None


def read_foreign_type(row: AnyRow) -> str | None:
    """Return the row's `answer_type` if it is none of ours: then the type is found."""
    declared = {**read_verifier_metadata(row), **row}.get(_TYPE_KEY)
    return None if declared is None or declared in list(AnswerType) else str(declared)


def replace_gold(row: AnyRow, gold: str) -> dict[str, Any] | None:
    """Return the row with another expected answer in the form of a text; None if it has no such member."""
    metadata = read_verifier_metadata(row)
    for key in _GOLD_KEYS:
        if isinstance(row.get(key), str):
            return {**row, key: gold}
        if isinstance(metadata.get(key), str):
            return attach_metadata(row, {**metadata, key: gold})
    return None


def _build_declared(members: Mapping[str, Any], gold: object) -> ExpectedAnswer:
    declared = members[_TYPE_KEY]
    answer: ExpectedAnswer | None = None
    match declared:
        case AnswerType.UNKNOWN:
            return UNKNOWN
        case AnswerType.CALLS:
            calls = _read_calls(gold)
            answer = ExpectedAnswer(AnswerType.CALLS, value=calls) if calls else None
        case AnswerType.JSON:
            value = _read_json(gold)
            answer = ExpectedAnswer(AnswerType.JSON, value=value) if value is not None else None
        case AnswerType.CODE:
            return CODE
        case _:
            answer = _build_texts(members, gold, AnswerType(declared))
    if answer is None or (
        declared == AnswerType.NUMBER and not all(_NUMBER.fullmatch(each.strip()) for each in answer.all_gold)
    ):
        raise ConfigError(
            f"`{_TYPE_KEY}` is {declared!r}, and the expected answer is {str(gold)[:80]!r}",
            code="answer_type",
            remedy="Declare the type that the answer has, or leave it out.",
        )
    return answer


def _build_texts(
    members: Mapping[str, Any], gold: object, declared: AnswerType | None = None
) -> ExpectedAnswer | None:
    """Return the answer that is one text or several; None if `gold` has no text."""
    texts = tuple(_write(each) for each in (gold if isinstance(gold, list) else [gold]))
    if not texts or not all(texts):
        return None
    options = tuple(_read_options(members.get("options") or members.get("choices")))
    return ExpectedAnswer(
        declared or _find_type(texts[0], options),
        texts[0],
        texts,
        options,
        is_exact=members.get("case_sensitive") is not False,
        is_case_fixed=members.get("case_sensitive", _CASE.search(read_question(members)) is not None) is True,
        is_strict="strict" in str(members.get("grading_mode", "")),
    )


def _read_json(gold: object) -> Any:
    """Return a JSON object or array, also of a text; None for anything else."""
    if isinstance(gold, str):
        try:
            gold = parse_json(gold.encode())
        except ValueError:
            return None
    return gold if isinstance(gold, dict | list) else None


def _write(gold: object) -> str:
    if isinstance(gold, bool):
        return str(gold)
    return str(gold) if isinstance(gold, str | int | float) else ""


def _find_type(gold: str, options: Sequence[tuple[str, str]]) -> AnswerType:
    if any(gold.strip() == letter for letter, _ in options):
        return AnswerType.CHOICE
    if _NUMBER.fullmatch(gold.strip()):
        return AnswerType.NUMBER
    if isinstance(_read_json(gold), dict):
        return AnswerType.UNKNOWN  # it may tell the verifier about the task
    if _SET.fullmatch(gold.strip()):
        return AnswerType.SET
    if re.search(r"\\[a-z]+|[\^=]|\d\s*[/*+]\s*\d|\bsqrt\b", gold) and len(gold) < 200:
        return AnswerType.EXPRESSION
    return AnswerType.TEXT


def find_function(row: AnyRow) -> str | None:
    """Return the name of the function that tests call; None if they run a program."""
    metadata = {**read_verifier_metadata(row), **row}
    tests = metadata.get("unit_tests")
    name = tests.get("fn_name") if isinstance(tests, Mapping) else None
    name = name or next((metadata[key] for key in _FUNCTION_KEYS if metadata.get(key)), None)
    return name if isinstance(name, str) and name.isidentifier() else None


def list_outputs(row: AnyRow) -> list[object]:
    """Return the right answers of the row's tests, `{"outputs": […]}` or `[{"output": …}, …]`; none of other forms."""
    members = {**read_verifier_metadata(row), **row}
    tests = next((members[key] for key in _TEST_KEYS if members.get(key)), None)
    if isinstance(tests, Mapping) and isinstance(tests.get("outputs"), list):
        return list(tests["outputs"])
    listed = tests if isinstance(tests, list) else []
    found = [
        [test[key] for key in _OUTPUT_KEYS if key in test] for test in listed if isinstance(test, Mapping)
    ]
    return [each[0] for each in found if each]


def split_set(gold: str) -> list[str]:
    """Return the elements of a set; none of another text."""
    found = _SET.fullmatch(gold.strip())
    return [element.strip() for element in found[1].split(",")] if found else []


def _read_options(options: object) -> Iterator[tuple[str, str]]:
    """Yield letters and texts of `[{"A": …}, …]`, `{"A": …}` or `["…", …]`."""
    if isinstance(options, Mapping):
        options = [{letter: text} for letter, text in options.items()]
    for place, option in enumerate(options if isinstance(options, list) else ()):
        if isinstance(option, Mapping):
            yield from ((str(letter), str(text)) for letter, text in option.items())
        else:
            yield chr(ord("A") + place), str(option)


def _read_calls(gold: object) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the calls of `[{"name": …, "arguments": …}, …]`, also as JSON text; None for anything else."""
    if isinstance(gold, str) and gold.lstrip().startswith("[{"):
        try:
            gold = parse_json(gold.encode())
        except ValueError:
            return None
    if not isinstance(gold, list) or not gold:
        return None
    calls = []
    for call in gold:
        arguments = call.get("arguments") if isinstance(call, Mapping) else None
        if isinstance(arguments, str):
            try:
                arguments = parse_json(arguments.encode())
            except ValueError:
                return None
        if not isinstance(arguments, dict) or not isinstance(call.get("name"), str):
            return None
        calls.append((call["name"], arguments))
    return calls


def read_question(row: AnyRow) -> str:
    """Return the last user message of a row's prompt."""
    return next((text for role, text in reversed(_list_messages(row)) if role == "user"), "")


def read_conversation(row: AnyRow) -> str:
    """Return the text of a row's whole prompt: its instructions and all messages."""
    return "\n".join(
        [str(read_params(row).get("instructions") or ""), *(text for _, text in _list_messages(row))]
    )


def _list_messages(row: AnyRow) -> list[tuple[object, str]]:
    """Return role and text of each message."""
    messages = read_params(row).get("input", "")
    if isinstance(messages, str):
        return [("user", messages)]
    listed = messages if isinstance(messages, list) else []
    return [
        (message.get("role"), _read_content(message.get("content")))
        for message in listed
        if isinstance(message, Mapping)
    ]


def _read_content(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, Mapping) and "text" in part)


_SIGNS = {
    WrittenForm.SQL_BLOCK: "```sql",
    WrittenForm.JSON_BLOCK: "```json",
    WrittenForm.BOXED: "\\boxed",
    WrittenForm.TAGS: "</answer>",
    WrittenForm.FINAL: "Final answer:",
    WrittenForm.LINE: "Answer:",
}


def find_asked_forms(row: AnyRow) -> list[WrittenForm]:
    """Return the forms that the prompt names."""
    prompt = str(read_params(row).get("instructions") or "") + read_question(row)
    return [form for form, sign in _SIGNS.items() if sign in prompt]


def list_forms(row: AnyRow, kind: AnswerType) -> list[WrittenForm]:
    """Return the forms to try, the ones that the prompt asks for first."""
    usual = [WrittenForm.BOXED, WrittenForm.PLAIN, WrittenForm.TAGS, WrittenForm.LINE]
    by_type = {
        AnswerType.JSON: [WrittenForm.PLAIN, WrittenForm.JSON_BLOCK],
        AnswerType.SQL: [WrittenForm.SQL_BLOCK, WrittenForm.PLAIN],
    }
    return list(dict.fromkeys([*find_asked_forms(row), *by_type.get(kind, usual)]))
