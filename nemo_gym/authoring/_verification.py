"""How an environment comes to its rewards, read from its source without running it.

A pattern is known by what the code uses: its verifier asks a judge model, runs code, looks at the state that tools
left in the session, scores every step, gives a reward of several parts. What uses none of it compares the answer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path


class VerificationPattern(StrEnum):
    """What a reward rests on."""

    ANSWER = "answer"
    """What the policy said, compared, parsed or checked by rules."""
    STATE = "state"
    """What the policy did: the session's state when it is over."""
    EXECUTION = "execution"
    """What the policy's code does when it is run."""
    JUDGE = "judge"
    """What a judge model says."""
    STEPS = "steps"
    """What each step gave while it was played."""
    MULTI_REWARD = "multi-reward"
    """A reward of several parts."""


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
    "nemo_gym.sandbox.execution": VerificationPattern.EXECUTION,
    "resources_servers.mcqa.choices": VerificationPattern.ANSWER,
    "nemo_gym.verify._formulas": VerificationPattern.ANSWER,
    "nemo_gym.verify.matching": VerificationPattern.ANSWER,
    "nemo_gym.verify.math_equality": VerificationPattern.ANSWER,
    "nemo_gym.verify.numbers": VerificationPattern.ANSWER,
}
_NOT_THE_SERVER = frozenset({"tests", "scripts", "data", "configs"})


def verification_patterns(folder: Path) -> list[VerificationPattern]:
    """The patterns of the environment in `folder`, in the order of their definition; never none."""
    found = {pattern for tree in _sources(folder) for pattern in _patterns_in(tree)}
    if not found - {VerificationPattern.MULTI_REWARD}:
        found.add(VerificationPattern.ANSWER)
    return [pattern for pattern in VerificationPattern if pattern in found]


def _sources(folder: Path) -> Iterator[ast.Module]:
    """The files that the server may import; those that don't parse tell nothing."""
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if _NOT_THE_SERVER.isdisjoint(inside.parts) and not path.name.startswith("prepare"):
            try:
                yield ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue


def _patterns_in(tree: ast.Module) -> Iterator[VerificationPattern]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            yield from _of_modules(node)
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield _NAMES[node.id]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _reads_the_session(node):
            yield VerificationPattern.STATE
        elif isinstance(node, ast.Call) and _routes_steps(node):
            yield VerificationPattern.STEPS


def _of_modules(node: ast.ImportFrom | ast.Import) -> Iterable[VerificationPattern]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    return [_MODULES[name] for name in names if name in _MODULES]


def _reads_the_session(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is a `verify` that takes the request, which is what the session is reached by."""
    return function.name == "verify" and any(argument.arg == "request" for argument in function.args.args)


def _routes_steps(call: ast.Call) -> bool:
    return any(isinstance(argument, ast.Constant) and argument.value == "/step" for argument in call.args)
