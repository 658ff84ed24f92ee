"""The lines of a Dockerfile and of shell scripts, as far as rules speak of them. Bodies of heredocs are left out."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from nemo_gym.sources.task_folders.lint.findings import LintFinding, LintRule

_HEREDOC = re.compile(r"""("(?:\\.|[^"\\])*"|'[^']*')|<<-?\s*(['"]?)(\w+)\2""")
_OPTIONS = re.compile(r"^(?:--\S+\s+)+")
_PINNED_IMAGE = re.compile(r"@sha256:[0-9a-fA-F]{64}$")
_PINNED_URL = re.compile(r"@[0-9a-fA-F]{40}(?:#|$)|#sha256=[0-9a-fA-F]{64}$")
_HIDDEN_FILE = re.compile(r"(?:^|/)(?:solution/solve\.sh|tests/(?:test\.sh|test_[^/]+\.py))$")
_SEPARATORS = frozenset({";", "&&", "||", "&", "|"})
_VALUE_OPTIONS = frozenset(
    {
        *("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "--index"),
        *("-t", "--target", "--prefix", "--root", "--cache-dir", "--python", "-p", "--log", "--src", "-f"),
        *("--find-links", "--platform", "--config-settings", "-C", "--default-index", "--from"),
    }
)
_INSTALLERS = (
    ("pip", "install"),
    ("pip3", "install"),
    ("python", "-m", "pip", "install"),
    ("python3", "-m", "pip", "install"),
    ("uv", "pip", "install"),
    ("uv", "tool", "install"),
    ("uvx",),
)
_OUTPUT_OPTIONS = frozenset({"-o", "--output", "-O", "--output-document", ">"})
_TEST_PACKAGES = frozenset({"pytest", "pytest-json-ctrf"})


class ShellCommandWords(NamedTuple):
    """A command of a line, and what separates it from the next."""

    words: list[str]
    separator: str


def lint_image(image: str, path: Path, field: str, line: int | None = None) -> Iterator[LintFinding]:
    """Yield a finding for an image without a digest."""
    if image != "scratch" and "$" not in image and not _PINNED_IMAGE.search(image):
        yield LintFinding(
            LintRule.UNPINNED_IMAGE, path, f"{field}: the image {image} has no SHA-256 digest", line
        )


def lint_script(path: Path, *, is_separate: bool) -> Iterator[LintFinding]:
    """Yield the findings of a shell script; `is_separate` for a verifier with a sandbox of its own."""
    for line, text in _join_lines(path.read_text(encoding="utf-8")):
        yield from _lint_line(text, path, line, is_separate=is_separate)


def lint_dockerfile(path: Path, *, is_agents: bool, has_shell: bool) -> Iterator[LintFinding]:
    """Yield the findings of a Dockerfile; `is_agents` for that of the agent's sandbox."""
    stages = set()
    for line, text in _join_lines(path.read_text(encoding="utf-8")):
        name, _, value = text.strip().partition(" ")
        value = _OPTIONS.sub("", value.strip())
        words = _split_words(value)
        if not value or words is None:
            continue
        name = name.upper()
        if name == "FROM" and words:
            if words[0].lower() not in stages:
                yield from lint_image(words[0], path, "FROM", line)
            if len(words) == 3 and words[1].upper() == "AS":
                stages.add(words[2].lower())
        elif name == "RUN" and has_shell:
            script = shlex.join(words) if value.startswith("[") else value
            yield from _lint_line(script, path, line, is_separate=False)
        elif name in ("COPY", "ADD") and is_agents and any(map(_HIDDEN_FILE.search, words[:-1])):
            message = "a file of the tests or of the solution comes into the image of the agent"
            yield LintFinding(LintRule.AGENT_IMAGE_TEST_LEAK, path, message, line)


def _split_words(value: str) -> list[str] | None:
    try:
        words = json.loads(value) if value.startswith("[") else shlex.split(value)
    except ValueError:
        return None
    is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return words if is_list else None


def _join_lines(source: str) -> Iterator[tuple[int, str]]:
    """Yield lines, joined where they go on, with the number of the first; without comments and heredocs."""
    pending, start, ends = "", 1, list[str]()
    for number, raw in enumerate(source.splitlines(), 1):
        if ends:
            if raw.strip() == ends[0]:
                ends.pop(0)
            continue
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        start = start if pending else number
        goes_on = raw.rstrip().endswith("\\")
        pending += raw.rstrip()[:-1] + " " if goes_on else raw
        if goes_on:
            continue
        ends = [match[3] for match in _HEREDOC.finditer(pending) if match[3]]
        if not ends:
            yield start, pending
        pending = ""
    if pending:
        yield start, pending


def _split_commands(line: str) -> list[ShellCommandWords]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    commands, words = [], list[str]()
    try:
        for token in lexer:
            if token not in _SEPARATORS:
                words.append(token)
                continue
            if words:
                commands.append(ShellCommandWords(words, token))
            words = []
    except ValueError:
        return []
    return [*commands, ShellCommandWords(words, "")] if words else commands


def _lint_line(text: str, path: Path, line: int, *, is_separate: bool) -> Iterator[LintFinding]:
    commands = _split_commands(text)
    for index, (words, separator) in enumerate(commands):
        packages = _list_packages(words)
        is_constrained = any(word.split("=", 1)[0] in {"-c", "--constraint"} for word in words)
        if not is_constrained and any(map(_is_unpinned, packages)):
            message = "Python packages without an exact version are installed"
            yield LintFinding(LintRule.UNPINNED_PYTHON_DEPENDENCY, path, message, line)
        if not is_separate:
            continue
        is_offline = not {"--offline", "--no-index"}.isdisjoint(words)
        if not is_offline and any(_read_name(package) in _TEST_PACKAGES for package in packages):
            message = "the verifier installs pytest at its start, which its image could have"
            yield LintFinding(LintRule.VERIFIER_RUNTIME_INSTALL, path, message, line)
        following = commands[index + 1].words if separator == "|" and index + 1 < len(commands) else []
        if _is_download(words, following):
            message = "the verifier downloads a file, which its image could have"
            yield LintFinding(LintRule.VERIFIER_NETWORK_DOWNLOAD, path, message, line)


def _list_packages(words: Sequence[str]) -> list[str]:
    """Return the packages that a command installs."""
    start = next((each for each in _INSTALLERS if tuple(words[: len(each)]) == each), None)
    if start is None:
        return []
    packages, left = [], iter(words[len(start) :])
    for word in left:
        option, equals, value = word.partition("=")
        if option in {"--with", "-w"}:
            packages.append(value if equals else next(left, ""))
        elif option in {"-e", "--editable"}:
            package = value if equals else next(left, "")
            packages += [package] if "://" in package else []
        elif option in _VALUE_OPTIONS:
            if not equals:
                next(left, None)
        elif not word.startswith("-"):
            if start == ("uvx",):
                break
            packages.append(word)
    upgrades_pip = packages == ["pip"] and not {"-U", "--upgrade"}.isdisjoint(words)
    return [] if upgrades_pip else packages


def _read_name(package: str) -> str:
    return re.split(r"[<>=!~\[]", package)[0].lower().replace("_", "-")


def _is_unpinned(package: str) -> bool:
    if not package or "$" in package or package.startswith((".", "/", "file:")):
        return False
    if "://" in package:
        return not _PINNED_URL.search(package)
    if package.endswith((".whl", ".tar.gz", ".zip")):
        return False
    try:
        specifiers = Requirement(package).specifier
    except InvalidRequirement:
        return False
    return not any(each.operator in {"==", "==="} and "*" not in each.version for each in specifiers)


def _is_download(words: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether a command fetches a file from another machine and keeps or runs it."""
    program, *arguments = words
    if program not in {"curl", "wget", "git"} or not any(map(_is_elsewhere, arguments)):
        return False
    if program == "git":
        return arguments[:1] == ["clone"]
    if list(following[:1]) in (["sh"], ["bash"]):
        return True
    if not {"--spider", "-O-", "-qO-"}.isdisjoint(arguments):
        return False
    for index, argument in enumerate(arguments):
        output = _read_output(program, argument, arguments[index + 1 : index + 2])
        if output is not None:
            return bool(output and output not in {"-", "/dev/null"} and "$" not in output)
    return program == "wget" or any(each.startswith(">") and each != ">/dev/null" for each in arguments)


def _read_output(program: str, argument: str, following: Sequence[str]) -> str | None:
    """Return the file that an argument names as the output; None if it names none."""
    if program == "curl" and argument == "-O":
        return argument
    if argument in _OUTPUT_OPTIONS:
        return following[0] if following else ""
    if argument.startswith(("--output=", "--output-document=")):
        return argument.split("=", 1)[1]
    return argument[2:] if program == "curl" and argument.startswith("-o") else None


def _is_elsewhere(argument: str) -> bool:
    try:
        host = urlsplit(argument.removeprefix("--url=")).hostname
    except ValueError:
        return False
    is_remote = bool(host and "." in host and not host.startswith("127.") and not host.endswith(".localhost"))
    return is_remote or re.match(r"git@[^:]+\.[^:]+:", argument) is not None
