"""The verification patterns of an environment, read from its source without running it.

A pattern is recognized by the names and modules in the code: a judge model, code execution, the session state, rewards
for each step, rewards with several parts. Without any of them, the environment compares the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path


class VerificationPattern(StrEnum):
    """The basis of a reward."""

    ANSWER = "answer"
    """The policy's answer, compared, parsed or checked by rules."""
    STATE = "state"
    """The policy's actions: the final state of the session."""
    EXECUTION = "execution"
    """The result of running the policy's code."""
    JUDGE = "judge"
    """The verdict of a judge model."""
    STEPS = "steps"
    """The sum of the rewards of each step."""
    MULTI_REWARD = "multi-reward"
    """A reward with several parts."""


_NAMES = {
    "call_judge": VerificationPattern.JUDGE,
    "reraise_judge_errors": VerificationPattern.JUDGE,
    "JudgeError": VerificationPattern.JUDGE,
    "ModelServerRef": VerificationPattern.JUDGE,
    "GymnasiumServer": VerificationPattern.STEPS,
    "BaseMultiRewardVerifyResponse": VerificationPattern.MULTI_REWARD,
    "AsyncSandbox": VerificationPattern.EXECUTION,
    "Sandbox": VerificationPattern.EXECUTION,
}
_MODULES = {
    "subprocess": VerificationPattern.EXECUTION,
    "nemo_gym.sandbox": VerificationPattern.EXECUTION,
    "nemo_gym.verify.judge": VerificationPattern.JUDGE,
    "nemo_gym.verify.code_execution": VerificationPattern.EXECUTION,
    "nemo_gym.verify.equivalence_judge": VerificationPattern.JUDGE,
    "resources_servers.text_to_sql.sql_execution": VerificationPattern.EXECUTION,
    "nemo_gym.verify.state": VerificationPattern.STATE,
    "nemo_gym.isolation.execution": VerificationPattern.EXECUTION,
    "resources_servers.mcqa.choices": VerificationPattern.ANSWER,
    "nemo_gym.verify.matching": VerificationPattern.ANSWER,
    "resources_servers.math_with_judge.math_equality": VerificationPattern.ANSWER,
    "nemo_gym.verify.numbers": VerificationPattern.ANSWER,
}
_NOT_THE_SERVER = frozenset({"tests", "scripts", "data", "configs"})


def verification_patterns(folder: Path) -> list[VerificationPattern]:
    """Return the patterns of the environment in `folder`, at least one, in the order of their definition."""
    found = {pattern for tree in _sources(folder) for pattern in _patterns_in(tree)}
    if not found - {VerificationPattern.MULTI_REWARD}:
        found.add(VerificationPattern.ANSWER)
    return [pattern for pattern in VerificationPattern if pattern in found]


def _sources(folder: Path) -> Iterator[ast.Module]:
    """Yield the files that the server may import, except those with syntax errors."""
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if _NOT_THE_SERVER.isdisjoint(inside.parts) and not path.name.startswith("prepare"):
            try:
                yield ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue


def _patterns_in(tree: ast.Module) -> Iterator[VerificationPattern]:
    for element in ast.walk(tree):
        if isinstance(element, ast.ImportFrom | ast.Import):
            yield from _match_modules(element)
        elif isinstance(element, ast.Name) and element.id in _NAMES:
            yield _NAMES[element.id]
        elif isinstance(element, ast.FunctionDef | ast.AsyncFunctionDef) and _reads_the_session(element):
            yield VerificationPattern.STATE
        elif isinstance(element, ast.Call) and _routes_steps(element):
            yield VerificationPattern.STEPS


def _match_modules(element: ast.ImportFrom | ast.Import) -> Iterable[VerificationPattern]:
    names = (
        [element.module or ""]
        if isinstance(element, ast.ImportFrom)
        else [alias.name for alias in element.names]
    )
    return [_MODULES[name] for name in names if name in _MODULES]


def _reads_the_session(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether the function is a `verify` with the request, through which it reaches the session."""
    return function.name == "verify" and any(argument.arg == "request" for argument in function.args.args)


def _routes_steps(call: ast.Call) -> bool:
    return any(isinstance(argument, ast.Constant) and argument.value == "/step" for argument in call.args)
