"""Rows in the forms of others, which are named and converted: JSON arrays, CSV, `messages`, tools of Chat Completions,
and questions with answers.

`find_foreign_parts` says what of a row has such a form, and `convert_row` makes a task row of it. A part that cannot be
converted stays as it is, and is refused as in any row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.rows.keys import PARAMS_KEY

_MESSAGES, _INPUT, _TOOLS, _FUNCTION = "messages", "input", "tools", "function"
_REQUEST = (_MESSAGES, _INPUT, _TOOLS, "tool_choice", "temperature", "top_p", "parallel_tool_calls")
"""Members of a request that may stand beside the members of a task."""
CHAT_FORM = "has the form of Chat Completions"
QUESTION_FORM = "is a question beside its answer"
CONVERTED_FORMS = (CHAT_FORM, QUESTION_FORM)
"""Words of the faults whose rows `convert_row` makes tasks of."""
_QUESTIONS, _ANSWERS, _EXPECTED = (
    ("question", "problem", "prompt"),
    ("answer", "expected_answer"),
    "expected_answer",
)
_SOLUTION_END = "####"
"""The text before the answer at the end of a solution, as in GSM8K."""
CSV_ENDINGS: Mapping[str, str] = {".csv": ",", ".tsv": "\t"}
"""The separators of files with a table, by their ending."""


def name_conversion(path: Path | str = "IN.jsonl") -> str:
    """Return the command that converts the rows of a file."""
    stem = Path(path).name.split(".")[0]
    return f"gym dataset convert {path} -o {Path(path).parent / f'{stem}_tasks.jsonl'}"


def refuse_other_form(path: Path, first_line: bytes) -> None:
    """Raise `ConfigError` if a file is one JSON array, or a table, instead of a row in each line."""
    if path.suffix in CSV_ENDINGS and first_line.lstrip()[:1] != b"{":
        raise ConfigError(
            f"{path} is a table ({path.suffix[1:].upper()}); a dataset has one JSON object in each line (JSONL)",
            code="dataset_table",
            remedy=f"Convert it: {name_conversion(path)}",
        )
    if first_line.lstrip()[:1] == b"[":
        raise ConfigError(
            f"{path} is a JSON array; a dataset has one JSON object in each line (JSONL)",
            code="dataset_array",
            remedy=f"Convert it: {name_conversion(path)}",
        )


def find_foreign_parts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the places of a row that have the form of others, each with what it has to be."""
    params = row.get(PARAMS_KEY)
    inner = params if isinstance(params, Mapping) else {}
    for place, holder in ((f"{PARAMS_KEY}.", inner), ("", row)):
        if _MESSAGES in holder and _INPUT not in inner:
            yield f"{place}{_MESSAGES}", f"{CHAT_FORM}: the conversation of a task is `{PARAMS_KEY}.{_INPUT}`"
    if (question := _find_question(row)) is not None:
        yield question, f"{QUESTION_FORM}: the conversation of a task is `{PARAMS_KEY}.{_INPUT}`"
    for number, tool in enumerate(_list_tools(inner)):
        if _is_nested(tool):
            yield (
                f"{PARAMS_KEY}.{_TOOLS}[{number}]",
                f"{CHAT_FORM}: `name` and `parameters` stand beside `type`, and not in `{_FUNCTION}`",
            )


def convert_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task row of a row in the form of others. Other members are kept. Raises `ValueError`."""
    if (question := _find_question(row)) is not None:
        answered = next(name for name in _ANSWERS if name in row)
        if empty := [name for name in (question, answered) if not str(row[name]).strip()]:
            raise ValueError(" and ".join(f"`{name}` is empty" for name in empty))
        answer = str(row[answered])
        kept = {key: row[key] for key in row if key not in _ANSWERS}
        expected = answer.rpartition(_SOLUTION_END)[2].strip()
        return {PARAMS_KEY: {_INPUT: row[question]}, **kept, "question": row[question], _EXPECTED: expected}
    params = row.get(PARAMS_KEY)
    request = dict(params) if isinstance(params, Mapping) else {}
    if PARAMS_KEY not in row:
        request = {name: row[name] for name in _REQUEST if name in row}
    elif _INPUT not in request and _MESSAGES not in request and _MESSAGES in row:
        request[_MESSAGES] = row[_MESSAGES]
    if _MESSAGES in request and _INPUT not in request:
        from nemo_gym.responses import VLLM, convert_chat_request  # only for rows in this form

        try:
            converted = convert_chat_request(request, VLLM).body
        except InputError as error:
            raise ValueError(error.failure.message) from error
        # The conversion says what a request leaves open; a task leaves it open, too.
        request = {name: value for name, value in converted.items() if name != "store" or "store" in request}
    if _INPUT not in request:
        raise ValueError(
            f"there is neither `{PARAMS_KEY}.{_INPUT}`, nor `{_MESSAGES}`, nor `question` with `answer`"
        )
    if _list_tools(request):
        request[_TOOLS] = [_flatten(tool) if _is_nested(tool) else tool for tool in request[_TOOLS]]
    moved = {_MESSAGES} if PARAMS_KEY in row else {*_REQUEST}
    return {PARAMS_KEY: request, **{key: row[key] for key in row if key != PARAMS_KEY and key not in moved}}


def find_lacking_columns(columns: Sequence[str]) -> str | None:
    """Return in words the columns that a table of tasks lacks; None if it lacks none."""
    if _INPUT in columns or _find_question(dict.fromkeys(columns, "")) is not None:
        return None
    question, answer = (" or ".join(f"`{name}`" for name in names) for names in (_QUESTIONS, _ANSWERS))
    return f"one column for the question ({question}) and one for the answer ({answer})"


def _find_question(row: Mapping[str, Any]) -> str | None:
    """Return the member with the question of a row that has nothing of a task but a question and its answer."""
    if PARAMS_KEY in row or _MESSAGES in row or _INPUT in row:
        return None
    answers = [row[name] for name in _ANSWERS if name in row]
    is_answered = len(answers) == 1 and isinstance(answers[0], str | int | float)
    return next((name for name in _QUESTIONS if is_answered and isinstance(row.get(name), str)), None)


def _list_tools(request: Mapping[str, Any]) -> list[Any]:
    tools = request.get(_TOOLS)
    return tools if isinstance(tools, list) else []


def _is_nested(tool: Any) -> bool:
    return isinstance(tool, Mapping) and isinstance(tool.get(_FUNCTION), Mapping) and "name" not in tool


def _flatten(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        **{key: tool[key] for key in tool if key not in (_FUNCTION, "type")},
        **tool[_FUNCTION],
    }
