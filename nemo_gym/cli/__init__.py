"""The commands, one module each. `ng <verb>` is `ng_<verb>`, and a verb may be written with dashes.

A module with a `main` is a verb. `command` holds the base of all commands (keys, help, errors, exit codes), `usage` the
text of `--help`, `moved` the names of former commands. Commands import other rooms only when they run, so that `--help`
is fast. Programs that embed a gym import `RunHelper` from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.cli.moved import MOVED, say_where

if TYPE_CHECKING:
    from nemo_gym.config.current import GlobalConfigDictParserConfig
    from nemo_gym.launch.run_helper import RunHelper

__all__ = ["GlobalConfigDictParserConfig", "RunHelper", "main", "verbs"]

_EMBEDDED = {
    "GlobalConfigDictParserConfig": "nemo_gym.config.current",
    "RunHelper": "nemo_gym.launch.run_helper",
}
_MAIN = re.compile(r"^(def )?main\b", re.MULTILINE)


def __getattr__(name: str) -> Any:
    if name not in _EMBEDDED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EMBEDDED[name]), name)


def verbs() -> list[str]:
    """The names of all commands, without `ng_`."""
    files = (file for folder in __path__ for file in Path(folder).glob("*.py"))
    found = (file.stem for file in files if _MAIN.search(file.read_text(encoding="utf-8")))
    return sorted(name for name in found if name != "__init__")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = [*(sys.argv[1:] if argv is None else argv)]  # `list` is a command of this package
    if not arguments or arguments[0] in ("-h", "--help"):
        arguments = ["help"]
    verb = arguments[0].replace("-", "_").removeprefix("ng_")
    if verb in MOVED:
        say_where(verb)
    if verb not in verbs():
        from nemo_gym.config.problems import did_you_mean

        print(f"ng: unknown command {arguments[0]!r}", file=sys.stderr)
        print(f"-> {did_you_mean(verb, verbs()) or 'See: ng help'}", file=sys.stderr)
        sys.exit(2)
    import_module(f"{__name__}.{verb}").main(arguments[1:])
