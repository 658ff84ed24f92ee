"""Tests mirror the files: the tests of `nemo_gym/a/b.py` and `nemo_gym/a/_b.py` are in `tests/a/test_b.py`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent / "nemo_gym"

TESTED_ELSEWHERE = {
    "authoring/_warm_pytest.py": "tests/authoring/test_suites.py runs every suite through it",
    "client/_forking.py": "tests/e2e/test_forks.py forks with a gym that runs",
    "cli/_expense_estimate.py": "tests/e2e/test_budgets.py makes dry runs, with stored rows and without",
    "cli/download_dataset_from_hf.py": "tests/datasets/test_hub.py runs the command against a stand-in for the hub",
    "cli/prepare_benchmark.py": "tests/datasets/test_benchmarks.py runs the command as a process",
    "cli/test.py": "tests/authoring/test_suites.py runs the command as a process",
    "cli/test_all.py": "tests/authoring/test_suites.py runs the command as a process",
    "cli/upload_dataset_to_hf.py": "tests/datasets/test_hub.py runs the command against a stand-in for the hub",
    "datasets/_script_process.py": "tests/datasets/test_benchmarks.py runs it for every script",
    "ecosystem/row_dispatch.py": "tests/ecosystem/test_row_collection.py reaches it through the calls of trainers",
    "launch/_host.py": "tests/launch/test_run_helper.py runs it as the process of a trainer's gym",
    "launch/nodes/node.py": "tests/launch/nodes/test_hosts_spawner.py starts, asks and loses nodes",
    "launch/nodes/nodes.py": "tests/launch/nodes/test_hosts_spawner.py starts, loses and ends nodes",
    "launch/_script.py": "tests/launch/test_spawners.py runs it for every server of its own interpreter",
    "sources/foreign/host/kinds/aviary.py": "tests/foreign/test_aviary.py needs aviary's packages",
    "sources/foreign/host/inspect_models.py": "tests/foreign/test_inspect.py needs Inspect's packages",
    "sources/foreign/host/kinds/inspect.py": "tests/foreign/test_inspect.py needs Inspect's packages",
    "sources/foreign/host/kinds/openenv.py": "tests/foreign/test_openenv.py needs OpenEnv's packages",
    "sources/foreign/host/kinds/textarena.py": "tests/foreign/test_textarena.py needs TextArena's packages",
    "sources/foreign/host/kinds/verifiers.py": "tests/foreign/test_verifiers.py needs verifiers' packages",
    "sources/foreign/host/kinds/verifiers_cast.py": "tests/foreign/test_verifiers.py needs verifiers' packages",
    "sources/foreign/host/kinds/verifiers_configuration.py": "tests/foreign/test_verifiers.py makes its mistakes",
    "sources/foreign/host/kinds/verifiers_programs.py": "tests/foreign/test_verifiers.py runs every program",
    "testing/tiny_model.py": "tests/train needs it, and torch",
    "testing/transformers_engine.py": "tests/train needs it, and torch",
}
"""Modules without tests at the mirrored path, and the reason."""


def has_functions(module: Path) -> bool:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return any(isinstance(element, ast.FunctionDef | ast.AsyncFunctionDef) for element in ast.walk(tree))


def mirrored(module: Path, package: Path = PACKAGE, tests: Path = TESTS) -> Path:
    """The path of the tests of `module`."""
    return tests / module.relative_to(package).parent / f"test_{module.name.removeprefix('_')}"


def untested(package: Path = PACKAGE, tests: Path = TESTS) -> list[str]:
    """The modules with functions, packages' own aside, whose tests do not exist at the mirrored path."""
    return [
        str(module.relative_to(package))
        for module in sorted(package.rglob("*.py"))
        if module.stem not in ("__init__", "__main__")
        and not mirrored(module, package, tests).exists()
        and has_functions(module)
    ]


def test_every_module_with_functions_has_its_mirrored_tests() -> None:
    assert untested() == sorted(TESTED_ELSEWHERE)


@pytest.mark.parametrize("reason", TESTED_ELSEWHERE.values())
def test_the_tests_that_an_exception_names_exist(reason: str) -> None:
    assert (TESTS.parent / reason.split()[0]).exists()


def test_a_module_without_tests_is_found(tmp_path: Path) -> None:
    package, tests = tmp_path / "package", tmp_path / "tests"
    for folder in (package / "room", tests / "room"):
        folder.mkdir(parents=True)
    (package / "room" / "_tested.py").write_text("def f(): ...\n")
    (package / "room" / "data.py").write_text("class Data:\n    size: int = 1\n")
    (package / "room" / "untested.py").write_text("class Data:\n    def f(self): ...\n")
    (tests / "room" / "test_tested.py").touch()
    assert untested(package, tests) == ["room/untested.py"]
