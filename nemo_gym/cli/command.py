"""The base of every command: keys, help, errors and exit codes.

A command is a module of `nemo_gym.cli` that declares its keys, names a handler, and has a `main`:

    class StatusKeys(Keys):
        as_json: bool = Field(False, alias="json", description="Print JSON instead of a table.")
        timeout_seconds: float = Field(5.0, gt=0, description="How long to wait for each server.")

    COMMAND = Command(
        name="ng_status",
        summary="Show which servers run, and how they are.",
        example="ng_status +json=true",
        keys=StatusKeys,
    )

    def show_status(keys: StatusKeys) -> int:
        from nemo_gym.launch.status import ...   # heavy imports belong here, so that --help is fast
        return ExitCode.COMPLETE

    main = COMMAND.entry_point(show_status)

A command that works on a gym configuration is a `ConfigCommand`. Its handler is `(keys, config: GlobalConfig) -> int`,
and it accepts every key of a configuration beside its own.

Keys are written `+key=value`, `++key=value`, `key=value`, `--key value`, `--key=value` or `--flag`, and values below a
key of type `dict` as `+key.field=value`. `env.yaml` may contain keys of commands. Unknown keys, missing keys and values
of the wrong type are reported together, and the command exits with 2. A command with a key `json` prints errors as JSON
on standard output if the key is true.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, Field

from nemo_gym.config.problems import ConfigErrors, list_problems
from nemo_gym.config.spelling import spell_keys
from nemo_gym.failures import CancelledFailure, ConfigError, GymError
from nemo_gym.serving.garbage import collected_rarely
from nemo_gym.tables import fold_text, terminal_width

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.options import Inspect
    from nemo_gym.processes.fork_server import ForkServer


class ExitCode(IntEnum):
    """The exit codes of commands."""

    COMPLETE = 0
    FATAL = 1
    BAD_INPUT = 2
    PARTIAL = 3
    INTERRUPTED = 130


EXIT_CODES: Mapping[int, str] = {
    ExitCode.COMPLETE: "complete",
    ExitCode.FATAL: "failed",
    ExitCode.BAD_INPUT: "wrong usage or configuration",
    ExitCode.INTERRUPTED: "interrupted",
}
"""The exit codes of a command that declares no others."""


_typed: ContextVar[str | None] = ContextVar("typed", default=None)


@contextmanager
def typed_as(name: str) -> Iterator[None]:
    """Let messages of commands begin with `name`, for a command line that is translated into another command."""
    token = _typed.set(name)
    try:
        yield
    finally:
        _typed.reset(token)


# `defer_build`: a command that knows the keys of another by name alone builds no validators of them.
class Keys(BaseModel, extra="forbid", populate_by_name=True, frozen=True, defer_build=True):
    """The base of a command's keys. Each field has a description, and a default unless it is required."""


class NoKeys(Keys):
    """The keys of a command without any."""


class PlacedKeys(Keys):
    """The keys of commands that start servers on one machine or several."""

    placement: Literal["process", "inline", "hosts", "ray"] = Field(
        "process",
        description="Run each server in its own process, all of them in this one (starts faster, for small runs), "
        "on the machines of `hosts`, or on the nodes of a Ray cluster.",
    )


KeysT = TypeVar("KeysT", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Command(Generic[KeysT]):
    """A command that needs no gym configuration."""

    name: str
    """The name as it is typed: `ng_status`."""
    summary: str
    """One sentence."""
    example: str
    """A valid command line."""
    keys: type[KeysT]
    exit_codes: Mapping[int, str] = field(default_factory=lambda: EXIT_CODES)

    def run(self, argv: Sequence[str] | None, handler: Callable[[KeysT], int]) -> int:
        """Call `handler` with the keys in `argv` (default: of the process), and return the exit code."""
        arguments = list(sys.argv[1:] if argv is None else argv)
        return self._run_guarded(arguments, lambda: handler(self.parse(arguments)))

    def entry_point(self, handler: Callable[[KeysT], int]) -> Callable[..., None]:
        """Return the function that a console script calls; its optional argument replaces the process's arguments."""

        def main(argv: Sequence[str] | None = None) -> None:
            with collected_rarely():  # imports and configurations leave no garbage worth collecting
                code = self.run(argv, handler)
            sys.exit(code)

        return main

    def parse(self, arguments: Sequence[str]) -> KeysT:
        """Return the keys in `arguments` and `env.yaml`. Raises `ConfigErrors`."""
        from nemo_gym.config.loading import load_keys

        return load_keys(arguments, self.keys)

    @property
    def fields(self) -> dict[str, FieldInfo]:
        """The keys by name, required ones first."""
        return dict(sorted(self.keys.model_fields.items(), key=lambda each: not each[1].is_required()))

    @property
    def shown_name(self) -> str:
        """The name that the user typed."""
        return _typed.get() or self.name

    def help(self) -> str:
        from nemo_gym.cli.usage import render_help

        return render_help(self)

    def _run_guarded(self, arguments: Sequence[str], work: Callable[[], int]) -> int:
        """Run `work`, report its errors, and return the exit code."""
        try:
            if "-h" in arguments or asks_for(arguments, "help") or asks_for(arguments, "h"):
                print(self.help())
                code = int(ExitCode.COMPLETE)
            else:
                code = int(work())
            sys.stdout.flush()
            return code
        except GymError as error:
            from nemo_gym.config.pydantic_problems import list_keys

            as_json = "json" in list_keys(self.keys) and asks_for(arguments, "json")
            return report(error, self.shown_name, as_json=as_json)
        except BrokenPipeError:
            if not _is_output_unread():
                raise
            return ExitCode.FATAL
        except KeyboardInterrupt:
            self._complain("interrupted")
            return ExitCode.INTERRUPTED

    def _complain(self, text: str) -> None:
        tell(f"{self.shown_name}: {text}")


@dataclass(frozen=True, kw_only=True)
class ConfigCommand(Command[KeysT]):
    """A command that works on a gym configuration: `config_paths`, `env.yaml` and overrides of any key."""

    accepts_keys_of: Sequence[str] = ()
    """Modules in `nemo_gym.cli` of other commands, whose keys are accepted and ignored."""

    def run(  # type: ignore[override]  # its handler takes the configuration too
        self,
        argv: Sequence[str] | None,
        handler: Callable[[KeysT, GlobalConfig], int],
        *,
        fork_server: ForkServer | None = None,
        needed_next: Sequence[str] = (),
    ) -> int:
        """Like `Command.run`. The options of servers are checked in forks of `fork_server`, or of one of its own.

        `needed_next` are modules that the handler imports; they are imported during these checks.
        """
        arguments = list(sys.argv[1:] if argv is None else argv)

        def work() -> int:
            keys, config = self.load(arguments, fork_server, needed_next)
            for warning in config.warnings:
                self._complain(f"warning: {warning}")
            return handler(keys, config)

        return self._run_guarded(arguments, work)

    def entry_point(  # type: ignore[override]  # as `run`
        self, handler: Callable[[KeysT, GlobalConfig], int]
    ) -> Callable[..., None]:
        return super().entry_point(cast(Any, handler))

    def load(
        self,
        arguments: Sequence[str],
        fork_server: ForkServer | None = None,
        needed_next: Sequence[str] = (),
    ) -> tuple[KeysT, GlobalConfig]:
        """Return the command's keys and the configuration. Raises `ConfigErrors`."""
        from nemo_gym.launch.inspection import inspector

        with inspector(fork_server, needed_next=needed_next) as inspect:
            return self._load(arguments, inspect)

    def _load(self, arguments: Sequence[str], inspect: Inspect) -> tuple[KeysT, GlobalConfig]:
        from nemo_gym.config.current import set_global_config_dict
        from nemo_gym.config.loading import load

        others = [import_module(f"nemo_gym.cli.{module}").COMMAND.keys for module in self.accepts_keys_of]
        config = load(arguments, command_keys=self.keys, other_keys=others, inspect=inspect)
        set_global_config_dict(config.data)
        return cast(KeysT, config.command_keys), config


def report(error: GymError, name: str, *, as_json: bool) -> ExitCode:
    """Print an error of the command `name`, and return its exit code."""
    failure = error.failure
    if as_json:
        import json

        problems = [
            {
                "where": str(p.where or ""),
                "message": spell_keys(p.message),
                "remedy": spell_keys(p.remedy or "") or None,
            }
            for p in list_problems(error)
        ]
        print(json.dumps({"ok": False, "kind": failure.kind, "problems": problems}, indent=2))
    elif isinstance(error, ConfigErrors):
        count = len(error.problems)
        tell(f"{name}: {count} problem{'s' if count > 1 else ''}\n{error.report()}")
    else:
        text = "\n-> ".join(part.rstrip() for part in (failure.message, failure.remedy) if part)
        tell(f"{name}: {text}")
    if isinstance(error, CancelledFailure):
        return ExitCode.INTERRUPTED
    return ExitCode.BAD_INPUT if isinstance(error, ConfigError) else ExitCode.FATAL


def tell(text: str) -> None:
    """Print `text` on standard error, in lines that fit its terminal."""
    print(fold_text(spell_keys(text), terminal_width(sys.stderr)), file=sys.stderr)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on the figures before them, in lines that fit the terminal."""
    for note in notes:
        print_folded(f"note: {note}")


def print_folded(text: str) -> None:
    """Print `text` on standard output, in lines that fit its terminal."""
    print(fold_text(spell_keys(text), terminal_width()))


def _is_output_unread() -> bool:
    """Return whether the reader of standard output (`| head`) has exited. If so, later output is discarded."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    is_unread = any(events & select.POLLERR for _, events in poll.poll(0))
    if is_unread:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return is_unread


def unusable_address(host: str, port: int, error: OSError) -> ConfigError:
    """Return the error of a command that cannot listen."""
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        from nemo_gym.launch.sockets import describe_holder

        reason = f"the port is taken by {describe_holder(port)}"
    return ConfigError(
        f"Cannot listen on {host}:{port}: {reason}.",
        code="address_unusable",
        remedy="Choose another port, or 0 for any free port.",
    )


def several(named: str | list[str]) -> list[str]:
    """Return the value of a key that takes one text or a list of texts."""
    return [named] if isinstance(named, str) else named


def asks_for(arguments: Sequence[str], flag: str) -> bool:
    """Return whether `flag` is set on the command line, in any spelling, before it is parsed."""
    spellings = {f"--{flag}", *(f"{prefix}{flag}=true" for prefix in ("", "+", "++", "--"))}
    return any(argument.lower() in spellings for argument in arguments)
