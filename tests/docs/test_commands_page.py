from __future__ import annotations

import tomllib

from docs.commands_page import commands, render_page
from nemo_gym import PARENT_DIR
from nemo_gym.cli import verbs


def test_the_page_of_commands_is_the_one_that_their_declarations_make() -> None:
    page = (PARENT_DIR / "docs" / "commands.md").read_text(encoding="utf-8")
    assert page == render_page(), "run: python docs/commands_page.py docs/commands.md"


def test_every_command_can_be_typed() -> None:
    project = tomllib.loads((PARENT_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    commands = dict.fromkeys(("gym", "ng"), "nemo_gym.cli:main")
    for prefix in ("ng", "nemo_gym"):
        commands |= {f"{prefix}_{verb}": f"nemo_gym.cli.{verb}:main" for verb in verbs()}
    commands |= dict.fromkeys(
        ("ng_viewer", "nemo_gym_viewer"), "nemo_gym.cli.view:main"
    )  # the ecosystem's name
    assert project["scripts"] == commands


def test_every_key_of_every_command_is_explained() -> None:
    for command in commands():
        assert command.example.startswith(command.name)
        fields = command.keys.model_fields
        assert [name for name, field in fields.items() if not field.description] == [], command.name
