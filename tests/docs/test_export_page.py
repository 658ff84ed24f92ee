from __future__ import annotations

import asyncio
import shlex
from pathlib import Path

import pytest

from docs.export_page import render_page
from nemo_gym import PARENT_DIR
from nemo_gym.cli.export import main
from nemo_gym.export.formats import NAMES
from tests.export.rows import TOOL, call, output, row, text, token_rows, write

PAGE = PARENT_DIR / "docs" / "export.md"


def commands() -> list[str]:
    """The command lines on the page."""
    blocks = PAGE.read_text(encoding="utf-8").split("```bash\n")[1:]
    return [block.partition("\n```")[0].replace("\\\n", " ") for block in blocks]


def test_the_page_of_formats_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render_page(), "run: python docs/export_page.py docs/export.md"


def test_every_format_has_its_command() -> None:
    assert {shlex.split(command)[1] for command in commands()} == {f"+format={name}" for name in NAMES}


@pytest.mark.parametrize("command", commands())
def test_the_commands_on_the_page_export_something(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with_tools = [
        row(1000, n, float(n), [call("Oslo"), output(str(n)), text("Rain.")], tools=[TOOL]) for n in range(2)
    ]
    write(tmp_path / "rollouts.jsonl", [*asyncio.run(token_rows(8, 4)), *with_tools])
    program, *arguments = shlex.split(command)
    assert program == "ng_export"
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert list(tmp_path.glob("data/*"))
