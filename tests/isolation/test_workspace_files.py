"""Files that are written into a workspace."""

from __future__ import annotations

import pytest

from nemo_gym.isolation.execution import ConfinedRunner
from nemo_gym.isolation.workspace_files import put_files
from tests.isolation.confined import run


async def test_programs_own_the_files_that_they_find(sandbox: ConfinedRunner) -> None:
    code = "print(open('a/b.txt', newline='').read()); open('a/b.txt', 'a'); open('a/new', 'w')"
    async with sandbox.workspace() as workspace:
        put_files(workspace, {"a/b.txt": "one\r\ntwo"})
        done = await run(sandbox, code, workspace=workspace)
    assert (done.stdout, done.stderr) == (b"one\r\ntwo\n", b"")


@pytest.mark.parametrize("files", [{"a": "", "a/b": ""}, {"a": "\ud800"}, {"a" * 300: ""}])
async def test_files_that_cannot_be_written_raise(sandbox: ConfinedRunner, files: dict[str, str]) -> None:
    async with sandbox.workspace() as workspace:
        with pytest.raises((OSError, ValueError)):
            put_files(workspace, files)
