"""The lines of a Dockerfile, as far as an image can be made of them without a container engine.

An image with one stage is supported: FROM, RUN, COPY, ADD of local files, ENV, ARG, WORKDIR, USER, ENTRYPOINT, and the
lines that change no file (LABEL, EXPOSE, CMD and others). Everything else is refused by its name, with all lines.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_WITHOUT_EFFECT = frozenset(
    {"LABEL", "EXPOSE", "CMD", "MAINTAINER", "STOPSIGNAL", "HEALTHCHECK", "VOLUME", "ONBUILD"}
)
_SUPPORTED = frozenset({"FROM", "RUN", "COPY", "ADD", "ENV", "ARG", "WORKDIR", "USER", "ENTRYPOINT"})
_VARIABLE = re.compile(r"\\(.)|\$(?:(\w+)|\{(\w+)(?::?([-+])([^}]*))?\})", re.DOTALL)
_HEREDOC = re.compile(r"<<(-?)(['\"]?)(\w+)\2")
_OPTION = re.compile(r"--([a-z-]+)(?:=(\S+))?\s+")
_OPTIONS = {
    "RUN": frozenset({"mount=type=cache", "network=default", "network=none"}),
    "COPY": frozenset({"chown", "chmod", "link"}),
    "ADD": frozenset({"chown", "chmod", "link"}),
}
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class UnsupportedLine(ValueError):
    """A line that this gym cannot apply."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """A line that is applied."""

    name: str
    """`RUN`, in capitals."""
    line: int
    value: str
    """Its text without options. The body of a heredoc for `RUN`."""
    options: Mapping[str, str]

    def words(self) -> list[str]:
        """Return its arguments: those of a JSON list, or of a shell's words."""
        if self.value.startswith("["):
            found = json.loads(self.value)
            if isinstance(found, list) and all(isinstance(word, str) for word in found):
                return found
        return shlex.split(self.value)


def parse_dockerfile(text: str) -> list[Instruction]:
    """Return the instructions. Raises UnsupportedLine with every line that cannot be applied."""
    found, problems = [], []
    for line, logical, body in _read_lines(text):
        try:
            instruction = _parse_line(line, logical, body)
        except ValueError as error:
            problems.append(f"line {line}: {error}")
            continue
        if instruction is not None:
            found.append(instruction)
    stages = [each.line for each in found if each.name == "FROM"]
    if len(stages) > 1:
        problems.append(f"line {stages[1]}: a second stage (FROM)")
    if not stages:
        problems.append("it has no FROM")
    if problems:
        raise UnsupportedLine("; ".join(problems))
    return found


def _read_lines(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield logical lines with their first line's number, and the body of a heredoc."""
    lines = iter(enumerate(text.splitlines(), 1))
    pending, start = "", 0
    for number, raw in lines:
        if not raw.strip() or raw.lstrip().startswith("#"):
            continue
        start = start if pending else number
        if raw.rstrip().endswith("\\"):
            pending += raw.rstrip()[:-1] + " "
            continue
        logical, pending = pending + raw, ""
        heredoc = _HEREDOC.search(logical) if not logical.lstrip().upper().startswith("RUN [") else None
        body = None
        if heredoc is not None and logical.split(None, 1)[0].upper() in ("RUN", "COPY", "ADD"):
            body = ""
            for _, each in lines:
                stripped = each.lstrip("\t") if heredoc[1] else each
                if stripped == heredoc[3]:
                    break
                body += stripped + "\n"
        yield start, logical.strip(), body
    if pending:
        yield start, pending.strip(), None


def _parse_line(line: int, logical: str, body: str | None) -> Instruction | None:
    name, _, value = logical.partition(" ")
    name, value = name.upper(), value.strip()
    if name in _WITHOUT_EFFECT:
        return None
    if name not in _SUPPORTED:
        raise UnsupportedLine(f"the instruction {name}")
    options: dict[str, str] = {}
    while name in _OPTIONS and (match := _OPTION.match(value)):
        options[match[1]] = match[2] or ""
        value = value[match.end() :]
    for option, given in options.items():
        is_known = {option, f"{option}={given}", f"{option}={given.split(',')[0]}"} & _OPTIONS[name]
        if not is_known:
            raise UnsupportedLine(f"the option --{option} of {name}")
    if body is not None:
        if name != "RUN":
            raise UnsupportedLine(f"a heredoc of {name}")
        value = body if _HEREDOC.fullmatch(value) else f"{value}\n{body}{_HEREDOC.search(value)[3]}\n"  # type: ignore[index]
    if name == "ADD" and any("://" in word or word.endswith(_ARCHIVES) for word in value.split()[:-1]):
        raise UnsupportedLine("ADD of an archive or of a URL")
    return Instruction(name, line, value, options)


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$NAME`, `${NAME}`, `${NAME:-default}` and `${NAME:+text}`. A missing variable is empty."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1] if match[1] == "$" else match[0]
        value = variables.get(match[2] or match[3])
        if match[4] == "-":
            return value or expand_variables(match[5], variables)
        if match[4] == "+":
            return expand_variables(match[5], variables) if value else ""
        return value or ""

    return _VARIABLE.sub(replace, text)


def parse_assignments(value: str) -> dict[str, str]:
    """Return the variables of an ENV line: `NAME=value …`, or `NAME value`."""
    name, _, rest = value.partition(" ")
    if "=" not in name:
        return {name: rest.strip()}
    pairs = [word.partition("=") for word in shlex.split(value)]
    return {name: text for name, _, text in pairs}
