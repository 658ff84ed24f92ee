"""Parse and validate the `verifier_metadata` of a coding task.

Rows of several benchmarks are accepted unchanged:

    LiveCodeBench, TACO, APPS    unit_tests: {inputs, outputs[, fn_name]}, also packed by zlib and base64
    HumanEval, EvalPlus          prompt, entry_point, test (a function `check(candidate)`)
    BigCodeBench                 code_prompt, entry_point, test (unittest classes)
    a task_id alone              the problem of that id in the server's `problems_fpath`
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.verify.code_blocks import runnable
from nemo_gym.verify.code_execution import CallCase, Checks, CheckStyle, ProgramCase
from nemo_gym.verify.task_rows import invalid_row


@dataclass(frozen=True, slots=True)
class ProgramTask:
    """A program that reads its input and prints its answer."""

    cases: tuple[ProgramCase, ...]


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """A function that is called and returns its answer."""

    name: str
    cases: tuple[CallCase, ...]


@dataclass(frozen=True, slots=True)
class CheckedTask:
    """A function that is checked by test code."""

    prompt: str
    """The beginning of the function, which the answer completes or repeats."""
    code: Checks
    style: CheckStyle | None
    """The form of tests that share the solution's interpreter; None when they run in another sandbox."""


Task: TypeAlias = ProgramTask | FunctionTask | CheckedTask


class UnitTests(BaseModel):
    """Tests in the form of LiveCodeBench."""

    inputs: list[Any]
    outputs: list[Any]
    fn_name: str | None = None


class CodeTests(BaseModel):
    """Tests in the form of HumanEval and BigCodeBench."""

    model_config = ConfigDict(extra="ignore")

    test: str
    entry_point: str
    prompt: str | None = None
    code_prompt: str | None = None
    in_process: bool = False
    """True if the tests share the solution's interpreter. Tests with unittest classes always do."""


Problems: TypeAlias = Mapping[str, Mapping[str, Any]]
"""Problems by `task_id`, for rows that hold nothing else."""


def load_problems(path: Path) -> dict[str, dict[str, Any]]:
    """Read the problems of a JSONL file by `task_id`. Raises ConfigError that names the invalid line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"problems_fpath cannot be read: {error}", code="problems_unreadable") from error
    problems: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            problem = json.loads(line)
            problems[problem["task_id"]] = problem
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"problems_fpath, {path}, line {number}: {type(error).__name__}: {error}",
                code="problems_unreadable",
                remedy="Each line is a JSON object with a task_id.",
            ) from error
    return problems


def read_task(metadata: Mapping[str, Any] | None, problems: Problems) -> Task:
    """Parse the task in `verifier_metadata`. Raises InputError that names the missing or invalid fields."""
    metadata = metadata or {}
    try:
        if metadata.get("unit_tests") is not None:
            return _read_unit_tests(UnitTests.model_validate(_unpack(metadata["unit_tests"])))
        task_id = metadata.get("task_id")
        if "test" in metadata or task_id in problems:
            return _read_code_tests(CodeTests.model_validate({**problems.get(str(task_id), {}), **metadata}))
    except (ValidationError, ValueError) as error:
        raise _invalid(_describe(error)) from error
    raise _invalid(
        "it has neither unit_tests nor test"
        + (
            f", and there is no problem {metadata['task_id']!r} in problems_fpath"
            if "task_id" in metadata
            else ""
        )
    )


def _unpack(unit_tests: Any) -> Any:
    if not isinstance(unit_tests, Mapping) or "packed" not in unit_tests:
        return unit_tests
    try:
        unpacked = json.loads(zlib.decompress(base64.b64decode(unit_tests["packed"])))
    except (zlib.error, binascii.Error, ValueError) as error:
        raise ValueError(f"unit_tests.packed cannot be unpacked: {error}") from error
    return {**unpacked, "fn_name": unit_tests.get("fn_name")}


def _read_unit_tests(tests: UnitTests) -> Task:
    if not tests.inputs or len(tests.inputs) != len(tests.outputs):
        raise ValueError(f"unit_tests has {len(tests.inputs)} inputs and {len(tests.outputs)} outputs")
    pairs = zip(tests.inputs, tests.outputs, strict=True)
    if tests.fn_name is None:
        return ProgramTask(tuple(ProgramCase(_text(given), _text(wanted)) for given, wanted in pairs))
    return FunctionTask(
        tests.fn_name.removeprefix("Solution.").removeprefix("Solution()."),
        tuple(_call_case(given, wanted) for given, wanted in pairs),
    )


def _text(value: Any) -> str:
    """Return a program's input or output as text; some benchmarks store its lines in a list."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    if not isinstance(value, str):
        raise ValueError(f"an input or output of a program is {value!r:.80}, not text")
    return value


def _call_case(given: Any, wanted: Any) -> CallCase:
    if isinstance(given, str):
        arguments = [json.loads(line) for line in given.splitlines() if line.strip()]
        return CallCase(arguments, [json.loads(wanted) if isinstance(wanted, str) else wanted])
    if not isinstance(given, list):
        raise ValueError(f"an input of a function is {given!r:.80}, neither text nor a list of arguments")
    # APPS wraps the returned value in a list, but not in every row.
    return CallCase(given, [wanted, wanted[0]] if isinstance(wanted, list) and len(wanted) == 1 else [wanted])


_UNITTEST_CLASS = re.compile(r"^class\s+\w+\s*\(.*\bTestCase\b.*\)\s*:", re.MULTILINE)


def _read_code_tests(tests: CodeTests) -> CheckedTask:
    prompt = tests.prompt if tests.prompt is not None else tests.code_prompt or ""
    has_classes = _UNITTEST_CLASS.search(tests.test) is not None
    style = CheckStyle.UNITTEST if has_classes else CheckStyle.ASSERTS if tests.in_process else None
    return CheckedTask(prompt, Checks(tests.test, tests.entry_point, runnable(prompt)), style)


def _describe(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())


def _invalid(problem: str) -> InputError:
    return invalid_row(f"verifier_metadata: {problem}", param="verifier_metadata")
