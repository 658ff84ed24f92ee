"""Repair tasks: what a row holds, and how one is made.

The verifier's cases are calls of functions with their expected values. Some of them are also the visible tests of the
repository; the others are not in its folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from nemo_gym.rows.compose import compose_task_row
from resources_servers.code_repair import in_memory
from resources_servers.code_repair.bugs import ARGUMENTS, BUGS, Bug, files_of

TEST_COMMAND = "python3 -m unittest discover -s tests -t ."
_DRAWS = 60
_CASES_OF_BUG, _CASES_OF_OTHERS = 8, 3
_VISIBLE_OF_BUG = 2
_RAISED = object()

PROMPT = """\
Issue {number} of the package `{package}`: {symptom}.

The repository in the working folder has the package `{package}` and tests in `tests/`, some of which fail. Find the \
cause and correct it. Change only these files, which are all that is taken over: {files}. More tests than those that \
you see will be run. Run the visible ones with `{command}`."""

TOOLS = [
    {
        "type": "function",
        "name": "list_files",
        "description": "List the paths of all files in the repository.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "strict": False,
    },
    {
        "type": "function",
        "name": "read_file",
        "description": "Return the text of a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "relative to the repository"}},
            "required": ["path"],
            "additionalProperties": False,
        },
        "strict": False,
    },
    {
        "type": "function",
        "name": "write_file",
        "description": "Replace the text of a file, or make a new one.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        "strict": False,
    },
    {
        "type": "function",
        "name": "run_tests",
        "description": "Run the tests in the repository and return their output.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "strict": False,
    },
]


class RepairCase(BaseModel):
    """A call of a function, and the value that it must return."""

    model_config = ConfigDict(extra="forbid")

    call: str
    """Module and function, such as `ledger.money.split_evenly`."""
    arguments: list[Any]
    expected: Any


class RepairTask(BaseModel):
    """The verifier's part of a row, which the agent never sees."""

    model_config = ConfigDict(extra="ignore")

    task_id: str
    bugs: list[str] = Field(default_factory=list)
    """The kinds of its bugs."""
    source_files: list[str] = Field(min_length=1)
    """The files that are taken from the agent; all others are the task's own."""
    cases: list[RepairCase] = Field(min_length=1)


class _Checked(NamedTuple):
    case: RepairCase
    fails: bool
    """True if the repository with its bugs does not pass it."""


def make_task(index: int, random: Random) -> dict[str, Any]:
    """Return a task row. Its package has one or two bugs, each of which some visible and some hidden cases show."""
    first = random.choice(BUGS)
    others = [bug for bug in BUGS if bug.package == first.package and bug.function != first.function]
    bugs = [first, *random.sample(others, k=int(random.random() < 1 / 3))]
    right = files_of(first.package)
    broken = _with_bugs(right, bugs)
    shown = [bug.function for bug in bugs]
    checked = [
        found
        for function in ARGUMENTS
        if function.partition(".")[0] == first.package
        for found in _cases(function, right, broken, random, is_shown=function in shown)
    ]
    if not all(any(one.fails and one.case.call == function for one in checked) for function in shown):
        return make_task(index, random)  # the bugs hide each other, or no draw shows one
    return _row(index, bugs, broken, checked)


def _with_bugs(files: Mapping[str, str], bugs: Sequence[Bug]) -> dict[str, str]:
    broken = dict(files)
    for bug in bugs:
        assert broken[bug.file].count(bug.right) >= 1, bug
        broken[bug.file] = broken[bug.file].replace(bug.right, bug.wrong, 1)
    return broken


def _cases(
    function: str, right: Mapping[str, str], broken: Mapping[str, str], random: Random, *, is_shown: bool
) -> list[_Checked]:
    """Return cases of a function: of one that shows a bug, half of them fail where draws allow it."""
    drawn = [ARGUMENTS[function](random) for _ in range(_DRAWS)]
    expected, found = _results(function, right, drawn), _results(function, broken, drawn)
    checked = [
        _Checked(RepairCase(call=function, arguments=arguments, expected=value), value != other)
        for arguments, value, other in zip(drawn, expected, found, strict=True)
    ]
    failing, passing = [one for one in checked if one.fails], [one for one in checked if not one.fails]
    if not is_shown:
        return checked[:_CASES_OF_OTHERS]
    chosen = failing[: _CASES_OF_BUG // 2]
    return chosen + passing[: _CASES_OF_BUG - len(chosen)]


def _results(function: str, files: Mapping[str, str], drawn: Sequence[list[Any]]) -> list[Any]:
    """The values of calls with arguments of JSON; a mark for a call that raises."""
    in_memory.use(files)
    try:
        return [_result(function, json.loads(json.dumps(arguments))) for arguments in drawn]
    finally:
        in_memory.use({})


def _result(function: str, arguments: list[Any]) -> Any:
    try:
        return in_memory.call(function, *arguments)
    except Exception:  # noqa: BLE001 - a bug may raise anything
        return _RAISED


def _row(
    index: int, bugs: Sequence[Bug], broken: Mapping[str, str], checked: list[_Checked]
) -> dict[str, Any]:
    package, shown = bugs[0].package, {bug.function for bug in bugs}
    source_files = [path for path in broken if not path.endswith("/__init__.py")]
    visible = [one.case for one in checked if one.case.call not in shown][::_CASES_OF_OTHERS]
    for function in sorted(shown):
        of_function = [one for one in checked if one.case.call == function]
        visible += [one.case for one in of_function if one.fails][:_VISIBLE_OF_BUG]
        visible += [one.case for one in of_function if not one.fails][:1]
    prompt = PROMPT.format(
        number=index + 1,
        package=package,
        symptom="; ".join(bug.symptom for bug in bugs),
        files=", ".join(f"`{path}`" for path in source_files),
        command=TEST_COMMAND,
    )
    files = {**broken, "tests/__init__.py": "", f"tests/test_{package}.py": test_file(visible)}
    task = RepairTask(
        task_id=f"{package}_{index + 1}",
        bugs=[bug.kind for bug in bugs],
        source_files=source_files,
        cases=[one.case for one in checked],
    )
    return compose_task_row(
        [{"role": "user", "content": prompt}],
        params={"tools": TOOLS},
        metadata=task.model_dump(),
        folder={"files": files, "take": source_files},
    )


def test_file(cases: Sequence[RepairCase]) -> str:
    """Return the visible tests as a file of unittest."""
    modules = sorted({case.call.rpartition(".")[0] for case in cases})
    lines = ["import unittest", "", *(f"import {module}" for module in modules), "", ""]
    lines += ["class TestPackage(unittest.TestCase):"]
    for number, case in enumerate(cases, start=1):
        name = case.call.rpartition(".")[2]
        called = f"{case.call}({', '.join(map(repr, case.arguments))})"
        lines += [f"    def test_{name}_{number}(self):"]
        lines += [f"        self.assertEqual({called}, {case.expected!r})", ""]
    return "\n".join(lines).rstrip() + "\n"
