"""The cause of a failure, from the text of its error. The order of `CAUSES` decides between several."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Cause(NamedTuple):
    """A class of failures, and the detail that differs within it."""

    name: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.detail}" if self.detail else self.name


@dataclass(frozen=True)
class _Rule:
    name: str
    pattern: re.Pattern[str]

    def match(self, text: str) -> Cause | None:
        found = self.pattern.search(text)
        if found is None:
            return None
        detail = ".".join(group for group in reversed(found.groups()) if group)
        return Cause(self.name, detail)


def _rule(name: str, pattern: str) -> _Rule:
    return _Rule(name, re.compile(pattern))


MISSING_NAME = "missing name"
MISSING_PACKAGE = "missing package"
LEFT_OUT = "package that the environment leaves out"
FAULT = "other"

_RULES = (
    _rule(MISSING_NAME, r"cannot import name '(\w+)' from '(nemo_gym[\w.]*)'"),
    _rule(MISSING_NAME, r"No module named '(nemo_gym[\w.]*)'"),
    _rule(MISSING_NAME, r"module '(nemo_gym[\w.]*)' has no attribute '(\w+)'"),
    _rule(MISSING_PACKAGE, r"No module named '([\w.]+)'"),
    _rule(MISSING_PACKAGE, r"its requirements are not met: ([\w.\[\]-]+)"),
    _rule(
        "no network",
        r"(?:Temporary failure in name resolution|Name or service not known|Network is unreachable"
        r"|LocalEntryNotFoundError|OfflineModeIsEnabled|Max retries exceeded|Cannot connect to host (?!127)"
        r"|ConnectError|Connection refused|RepositoryNotFoundError|ProxyError"
        r"|'git', 'clone', .*returned non-zero exit status 128)",
    ),
    _rule("missing program", r"(?:No such file or directory: '([\w.+-]+)'|\b(\w+): command not found)"),
    _rule("refused option", r"has no option '(\w+)'"),
    _rule("role that is not known", r"(environment_servers) is not a kind of server"),
    _rule("value that the user gives", r"refers to `\$\{"),
    _rule("value that the user gives", r"(?:is not set|\?\?\?|needs the environment variable|must be given)"),
    _rule("value that the user gives", r"is required\. Write \+"),
    _rule("value of another type", r"must be a valid"),
    _rule("code that fails", r"The code fails: (\w+)"),
    _rule("server that the user adds", r"there is no server"),
    _rule("fragment for others to inherit", r"has no `entrypoint`"),
    _rule("two implementations of one server", r"has 2 implementations"),
    _rule("address without a token", r"there is no token"),
    _rule("key without effect", r"The key '(\w+)' is not used"),
    _rule("license that the list of their core lacks", r"license: Must be\s+one of"),
    _rule("missing file", r"(?:there is no file|There is no \S+ in|There is no file|[Tt]here is no folder)"),
    _rule("missing file", r"No such file or directory"),
)


def cause_of(text: str, left_out: Mapping[str, str]) -> Cause:
    """Return the cause of the failure described by `text`; `left_out` are packages by name."""
    found = next((cause for rule in _RULES if (cause := rule.match(text))), None)
    if found is None:
        first = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        return Cause(FAULT, first.strip()[:110])
    package = found.detail.partition(".")[0].lower().replace("_", "-")
    if found.name == MISSING_PACKAGE and package in left_out:
        return Cause(LEFT_OUT, package)
    return found
