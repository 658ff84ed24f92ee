"""The code blocks of the documentation, and their marks.

Every block of bash or Python on a page is executed by `run_page.py`, in order. A comment on the line before the block
changes that. Readers of the site do not see it:

    <!-- not run: needs a GPU -->             the block is only checked: syntax, names of commands, keys and imports
    <!-- run by: tests/docs/test_x.py -->     a test executes the block with more around it
    <!-- until: servers are ready -->         the block runs until the page ends; the page goes on when this is printed
    <!-- starts: servers are ready -->        the block is ended as soon as this is printed
    <!-- exit code: 1 -->                     the block ends with this code

A block whose title is a path, as in ```python title="my/app.py", is that file. A comment that begins with `bash`,
`python` or `bash until: …` is a block that readers do not see, for the preparation of others. Blocks of JSON, TOML and
YAML are parsed. Blocks without a language are the output of the block before.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DOCS = Path(__file__).resolve().parent
MARKS = ("not run", "run by", "until", "starts", "exit code")
TEXT_THAT_IS_NO_COMMAND = frozenset({"…", "..."})
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>[a-z ]+): (?P<value>[^\n]*) -->\n)?"
    r'```(?P<language>\w*)(?: title="(?P<file>[^"\n]+)")?\n(?P<text>.*?)^```$'
    r"|^<!-- (?P<hidden>bash|python)(?: until: (?P<ready>[^\n]+))?\n(?P<prepares>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
_SEPARATORS = frozenset({";", "&", "&&", "||", "|", "(", ")", ">", "<", ">>"})
_GYM = ("gym", "ng")


class Snippet(NamedTuple):
    """A code block of a page."""

    line: int
    language: str
    text: str
    file: str | None = None
    mark: str | None = None
    value: str = ""
    is_hidden: bool = False

    @property
    def is_executed(self) -> bool:
        """Return whether `run_page.py` executes the block."""
        runs = self.mark not in ("not run", "run by")
        return runs and self.file is None and self.language in ("bash", "python")


def pages() -> list[Path]:
    """Return the pages of the site and the README."""
    return [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


def snippets_of(page: str) -> Iterator[Snippet]:
    """Yield the blocks of a page, in order. Raises `ValueError` for an unknown mark."""
    for match in _BLOCK.finditer(page):
        line = page.count("\n", 0, match.start()) + 1
        if match["hidden"]:
            mark = "until" if match["ready"] else None
            yield Snippet(line, match["hidden"], match["prepares"], None, mark, match["ready"] or "", True)
            continue
        if match["mark"] not in (None, *MARKS):
            raise ValueError(
                f"line {line}: there is no mark {match['mark']!r}; the marks are {', '.join(MARKS)}"
            )
        yield Snippet(
            line, match["language"], match["text"], match["file"], match["mark"], match["value"] or ""
        )


def problem_of(snippet: Snippet) -> str | None:
    """Return what is wrong with a block, found without executing it; None if nothing is."""
    check = _CHECKS.get(snippet.language)
    try:
        return check(snippet.text) if check else None
    except (ValueError, SyntaxError, ImportError, yaml.YAMLError) as error:
        return f"{type(error).__name__}: {error}"


def _problem_of_bash(text: str) -> str | None:
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    if checked.returncode != 0:
        return checked.stderr
    return next((problem for words in commands_in(text) if (problem := _problem_of_command(words))), None)


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a script, without assignments of variables."""
    words: list[str] = []
    for line in _without_comments(text):
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, ""
        for word in [*lexer, ";"]:
            if word not in _SEPARATORS:
                words.append(word)
            elif words:
                yield words
                words = []


def _without_comments(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        yield re.sub(r"(^|\s)#.*$", "", line)


def _problem_of_command(words: list[str]) -> str | None:
    while words and re.match(r"^\w+=", words[0]):
        words = words[1:]
    if not words:
        return None
    program = Path(words[0]).name
    if program in _GYM:
        return _problem_of_gym(words[1:])
    if program.startswith("ng_"):
        return _problem_of_keys(program, words[1:])
    return None


def _problem_of_gym(arguments: list[str]) -> str | None:
    import click

    from nemo_gym.cli import verbs
    from nemo_gym.cli.short.line import parser

    if (
        arguments
        and arguments[0].replace("-", "_") in verbs()
        and len(arguments) > 1
        and "=" in arguments[-1]
    ):
        return _problem_of_keys(f"ng_{arguments[0].replace('-', '_')}", arguments[1:])
    command: click.Command = parser()
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), arguments[0]) if arguments else None
        if found is None:
            return f"gym has no verb {' '.join(arguments[:1])!r}"
        command, arguments = found, arguments[1:]
    context = click.Context(command, resilient_parsing=False)
    typed = [word for word in arguments if not word.startswith("+") and word not in TEXT_THAT_IS_NO_COMMAND]
    try:
        options, _, _ = command.make_parser(context).parse_args(typed)
    except click.ClickException as error:
        return f"gym … {command.name}: {error.format_message()}"
    # Verbs report all unknown options together, so the parser takes them for arguments.
    given = options.get("arguments")
    words = given if isinstance(given, list | tuple) else ()
    unknown = [word for word in words if isinstance(word, str) and re.match("-.", word)]
    return f"gym … {command.name} has no option {', '.join(unknown)}" if unknown else None


def _problem_of_keys(program: str, arguments: list[str]) -> str | None:
    from nemo_gym.cli import verbs
    from nemo_gym.cli.command import ConfigCommand

    verb = program.removeprefix("ng_")
    if verb not in verbs():
        return f"there is no command {program}"
    command = import_module(f"nemo_gym.cli.{verb}").COMMAND
    if isinstance(command, ConfigCommand):
        return None  # any key of a configuration is a key of the command
    known = {field.alias or name for name, field in command.keys.model_fields.items()}
    keys = [re.match(r"^(?:\+\+?|--)?([A-Za-z_]+)[.=]", word) for word in arguments]
    unknown = [found[1] for found in keys if found and found[1] not in known]
    return f"{program} has no key {', '.join(unknown)}" if unknown else None


def _problem_of_python(text: str) -> str | None:
    tree = compile(text, "snippet", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for element in ast.walk(tree):
        if isinstance(element, ast.ImportFrom) and (element.module or "").startswith("nemo_gym"):
            module = import_module(str(element.module))
            unknown = [name.name for name in element.names if not hasattr(module, name.name)]
            if unknown:
                return f"{element.module} has no {', '.join(unknown)}"
    return None


def _parsed_by(parse: Callable[[str], Any]) -> Callable[[str], None]:
    def check(text: str) -> None:
        parse(text)

    return check


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "bash": _problem_of_bash,
    "python": _problem_of_python,
    "json": _parsed_by(json.loads),
    "toml": _parsed_by(tomllib.loads),
    "yaml": _parsed_by(yaml.safe_load),
}
