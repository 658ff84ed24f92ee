"""Values of a solution as tagged JSON, and the interpreter that runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from nemo_gym.failures import ConfigError, VerifierError
from nemo_gym.sandbox.execution import SandboxLimits
from nemo_gym.verify._code_harness import dump
from nemo_gym.verify._code_protocol import (
    PythonInstallation,
    Reason,
    SolutionFailed,
    open_harness,
    read_value,
)
from nemo_gym.verify.code_execution import (
    CallCase,
    CodeRunner,
)


async def test_another_interpreter_brings_its_packages() -> None:
    runner = CodeRunner(python=sys.executable)
    verdict = await runner.call_function("import orjson\ndef f(): return 1", "f", [CallCase([], [1])])
    assert verdict.passed
    with pytest.raises(ConfigError, match="python_executable"):
        CodeRunner(python="/nowhere/python")


@pytest.mark.parametrize(
    "tagged", [{"tuple": 1}, {"what": []}, {}, {"set": [[1]]}, {"dict": [[1]]}, {"int": "xyz"}]
)
def test_malformed_values_are_refused(tagged: Any) -> None:
    with pytest.raises(SolutionFailed):
        read_value(tagged)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1 << 80,
        float("inf"),
        "\ud800 \u2028",
        [(1, 2), {3}, frozenset({4})],
        {(1, "a"): b"\xff", None: [1j]},
    ],
)
def test_values_come_back_as_they_were(value: Any) -> None:
    returned = read_value(json.loads(dump(value)))
    assert returned == value
    assert type(returned) is type(value)


def test_an_object_of_some_class_is_named_and_not_plain_data() -> None:
    with pytest.raises(SolutionFailed, match=r"builtins\.object") as caught:
        read_value(json.loads(dump({"a": object()})))
    assert caught.value.reason is Reason.NOT_PLAIN_DATA


def test_the_interpreter_of_the_gym_brings_no_packages() -> None:
    python = PythonInstallation.of_the_gym()
    found = subprocess.run(
        python.command("import sys; print([p for p in sys.path if 'site-packages' in p])"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "[]\n"
    assert all(folder.is_dir() for folder in python.folders)


async def test_a_message_that_is_nested_too_deep_is_the_solution_s_failure() -> None:
    nested: Any = []
    for _ in range(10_000):
        nested = [nested]
    python = PythonInstallation.of_the_gym()
    sandbox = python.make_sandbox(require_sandbox=False)
    async with open_harness(sandbox, python, SandboxLimits(wall_s=10)) as harness:
        with pytest.raises(SolutionFailed) as caught:
            await harness.send(nested, 10)
    assert caught.value.reason is Reason.NOT_PLAIN_DATA


async def test_a_harness_that_does_not_start_is_a_failure_of_the_machine() -> None:
    python = PythonInstallation.of_the_gym()
    sandbox = python.make_sandbox(require_sandbox=False)
    broken = replace(python, flags=("--no-such-flag",))
    with pytest.raises(VerifierError, match="A sandbox did not start") as caught:
        async with open_harness(sandbox, broken, SandboxLimits(wall_s=10)):
            pass
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("sandbox_failed", True)
