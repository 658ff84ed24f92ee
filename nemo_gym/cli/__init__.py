"""The commands, one module each, and `gym` or `ng`, which is all of them.

`gym <group> <verb>` is a short form (`nemo_gym.cli.short`). `gym <verb>` is `ng_<verb>`, with dashes or underscores.

A module with a `main` is a verb. `command` holds the base of all commands (keys, help, errors, exit codes), `usage` the
text of `--help`. Commands import other rooms only when they run, so that `--help` is fast. Programs that embed a gym
import `RunHelper` from here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_gym.config.current import GlobalConfigDictParserConfig
    from nemo_gym.launch.run_helper import RunHelper

__all__ = ["GlobalConfigDictParserConfig", "RunHelper", "main", "verbs"]

_EMBEDDED = {
    "GlobalConfigDictParserConfig": "nemo_gym.config.current",
    "RunHelper": "nemo_gym.launch.run_helper",
}
_SHORT = {"audit", "completion", "doctor", "forget", "fork", "list", "mock_engine", "view"}
"""Verbs that are also short ones."""
_SPELLINGS = {"--version": "version", "-V": "version"}
_INTERRUPTED = 130
"""The exit code of an interrupt, as `ExitCode.INTERRUPTED`, which is not imported yet."""
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
    """Run `gym` or `ng`. Raises `SystemExit`. An interrupt is told in one line, also one during the first imports."""
    try:
        _run(argv)
    except KeyboardInterrupt:
        sys.exit(_tell_interrupted())


def _tell_interrupted(name: str = "gym") -> int:
    print(f"{name}: interrupted", file=sys.stderr)
    return _INTERRUPTED


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether an error is an interrupt, or another one for which a library took it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _tell_early_interrupts() -> None:
    """Tell an interrupt of one of our programs in one line, before its command has been imported."""
    program, plain = Path(sys.argv[0] if sys.argv else "").name, sys.excepthook

    def tell_or_raise(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not _is_interrupt(error):
            plain(kind, error, trace)
            return
        raise SystemExit(_tell_interrupted(program))

    if program in ("gym", "ng") or program.startswith("ng_"):
        sys.excepthook = tell_or_raise


_tell_early_interrupts()


def _run(argv: Sequence[str] | None) -> None:
    arguments = [*(sys.argv[1:] if argv is None else argv)]  # `list` is a command of this package
    verb = (
        _SPELLINGS.get(arguments[0], arguments[0]).replace("-", "_").removeprefix("ng_") if arguments else ""
    )
    if verb in verbs() and verb not in _SHORT:
        import_module(f"{__name__}.{verb}").main(arguments[1:])
        return
    from nemo_gym.cli.short.line import run

    if verb in _SHORT:
        arguments[0] = verb.replace("_", "-")
    run(arguments or ["--help"], program="ng" if Path(sys.argv[0]).name == "ng" else "gym")
