"""The catalogue of all environments, agents and models, from their configuration files and docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemo_gym.authoring.implementations import ENTRYPOINT, Implementation, find_implementations
from nemo_gym.authoring.workloads import read_config
from nemo_gym.json_objects import member
from nemo_gym.names import ServerKind

_ENVIRONMENTS: ServerKind = "resources_servers"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """The description of one implementation."""

    implementation: Implementation
    domain: str | None
    verification: tuple[str, ...]
    """Its verification patterns; empty for agents and models."""
    description: str
    is_verified: bool
    """True if its configuration states that training on it was shown to help."""
    example_tasks: int

    def to_json(self) -> dict[str, Any]:
        implementation = self.implementation
        return {
            "entrypoint": implementation.entrypoint,
            "kind": implementation.kind,
            "name": implementation.name,
            "domain": self.domain,
            "verification": list(self.verification),
            "description": self.description,
            "verified": self.is_verified,
            "example_tasks": self.example_tasks,
            "has_tests": implementation.has_tests,
            "folder": str(implementation.folder),
            "configs": [str(path) for path in implementation.configs],
        }


def read_catalog(
    working_folder: Path, kind: ServerKind | None = None, domain: str | None = None
) -> list[CatalogEntry]:
    """Return the entries, optionally of one kind or one domain only."""
    entries = (read_entry(each) for each in find_implementations(working_folder, kind))
    return [entry for entry in entries if domain in (None, entry.domain)]


def read_entry(implementation: Implementation) -> CatalogEntry:
    """Return the entry of one implementation. The first configuration file that sets a value wins."""
    blocks = list(_own_blocks(implementation))

    def find_stated(key: str) -> Any:
        return next((block[key] for block in blocks if block.get(key) is not None), None)

    is_environment = implementation.kind == _ENVIRONMENTS
    return CatalogEntry(
        implementation,
        domain=find_stated("domain"),
        verification=tuple(verification_patterns(implementation.folder)) if is_environment else (),
        description=str(find_stated("description") or _docstring(implementation)),
        is_verified=find_stated("verified") is True,
        example_tasks=_count_rows(implementation.folder / "data" / "example.jsonl"),
    )


def _own_blocks(implementation: Implementation) -> Iterator[Mapping[str, Any]]:
    """Yield the unresolved blocks of this implementation in its own configuration files."""
    for path in implementation.configs:
        config = read_config(path)
        for instance in config.values() if isinstance(config, Mapping) else ():
            block = member(instance, implementation.kind, implementation.name)
            if isinstance(block, Mapping):
                yield block


def _docstring(implementation: Implementation) -> str:
    """Return the first sentence of the docstring of the module or of its last documented class."""
    try:
        tree = ast.parse((implementation.folder / ENTRYPOINT).read_bytes())
    except (SyntaxError, ValueError):
        return ""
    text = ast.get_docstring(tree) or next(
        (
            found
            for element in reversed(tree.body)
            if isinstance(element, ast.ClassDef) and (found := ast.get_docstring(element))
        ),
        "",
    )
    first = " ".join(text.split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def _count_rows(path: Path) -> int:
    if not path.is_file():
        return 0
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


# --- Verification patterns --------------------------------------------------------------------------------------------
# The verification patterns of an environment, read from its source without running it.
# A pattern is recognized by the names and modules in the code: a judge model, code execution, the session state,
# rewards for each step, rewards with several parts. Without any of them, the environment compares the answer.


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
