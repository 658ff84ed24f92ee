"""Generated tasks: they can be repeated, their bugs show, and their packages are right."""

from __future__ import annotations

import json
from random import Random

import pytest

from resources_servers.code_repair import in_memory
from resources_servers.code_repair.bugs import ARGUMENTS, BUGS, Bug, files_of
from resources_servers.code_repair.tasks import RepairTask, make_task


def fails(files: dict[str, str], task: RepairTask) -> list[str]:
    """The functions of the cases that files do not pass."""
    failed = []
    in_memory.use(files)
    try:
        for case in task.cases:
            try:
                if in_memory.call(case.call, *json.loads(json.dumps(case.arguments))) != case.expected:
                    failed.append(case.call)
            except Exception:  # noqa: BLE001 - a bug may raise anything
                failed.append(case.call)
    finally:
        in_memory.use({})
    return failed


@pytest.mark.parametrize("seed", range(60))
def test_the_bugs_of_a_task_show_and_the_right_files_pass(seed: int) -> None:
    row = make_task(seed, Random(seed))
    task = RepairTask.model_validate(row["verifier_metadata"])
    right = files_of(task.cases[0].call.partition(".")[0])
    assert fails(right, task) == []
    assert fails({path: row["folder"]["files"][path] for path in right}, task)
    assert json.dumps(row) == json.dumps(make_task(seed, Random(seed)))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.kind}-{bug.function}")
def test_every_bug_is_found_in_its_file(bug: Bug) -> None:
    assert bug.right in files_of(bug.package)[bug.file]
    assert bug.function in ARGUMENTS


def test_there_are_several_kinds_of_bugs_in_every_package() -> None:
    kinds = {
        package: {bug.kind for bug in BUGS if bug.package == package} for package in {b.package for b in BUGS}
    }
    assert len(kinds) == 4
    assert all(len(found) >= 3 for found in kinds.values())


def test_packages_in_memory_import_each_other_and_are_forgotten() -> None:
    in_memory.use({"one/__init__.py": "", "one/a.py": "from .b import x", "one/b.py": "x = lambda: 7"})
    assert in_memory.call("one.a.x") == 7
    in_memory.use({"one/__init__.py": "", "one/a.py": "x = lambda: 8"})
    assert in_memory.call("one.a.x") == 8
    in_memory.use({"one/a.py": ""})
    in_memory.use({})
    with pytest.raises(ModuleNotFoundError):
        in_memory.call("one.a.x")
