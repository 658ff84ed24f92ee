"""The options of `gym`: each sets a key of the command that a verb runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import click

from nemo_gym.config.spelling import spell

_VARIABLE = re.compile(r"env:([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Flag:
    """An option and its key."""

    names: str
    """`--output -o`."""
    metavar: str | None
    """None for a switch."""
    help: str
    key: str | None = None
    """The key that it sets, by default of the same name. With an empty one, the translation of the verb reads it."""
    form: Literal["text", "texts", "number", "decimal", "value"] = "text"
    """`texts` may be repeated. `decimal` and `value` are written as they are: a number, or a number or a word."""
    write: Callable[[Any], str] = spell
    """Writes the value as an override."""

    @property
    def parameter(self) -> str:
        """The name of its value among the parsed values."""
        return self.names.split()[0].lstrip("-").replace("-", "_")

    @property
    def target(self) -> str:
        """The key that it sets, or an empty text."""
        return self.parameter if self.key is None else self.key

    def option(self) -> click.Option:
        """Return the option for the parser."""
        names = [*self.names.split(), self.parameter]
        if self.metavar is None:
            return click.Option(names, is_flag=True, help=self.help)
        kind = click.INT if self.form == "number" else click.STRING
        return click.Option(
            names,
            metavar=self.metavar,
            multiple=self.form == "texts",
            type=kind,
            callback=_check_number if self.form == "decimal" else None,
            help=self.help,
            shell_complete=self._complete,
        )

    def _complete(self, _: click.Context, __: click.Parameter, typed: str) -> Any:
        from nemo_gym.cli.short.completion import complete_option

        return complete_option(self.names.split()[0], self.metavar or "", typed)

    def overrides(self, value: Any) -> list[str]:
        """Return the override that `value` means; none for an option that is absent or has no key."""
        if not self.target or value is None or value is False or value == ():
            return []
        text = str(value) if self.form in ("decimal", "value") else self.write(value)
        return [f"++{self.target}={text}"]


def _check_number(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return a number as it was typed: a run keeps its identity where 1 and 1.0 mean the same."""
    try:
        float(value or 0)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number.", ctx, option) from error
    return value


def key_or_variable(text: str) -> str:
    """Return an API key as an override: `env:NAME` as a reference to the variable. A literal warns."""
    variable = _VARIABLE.fullmatch(text)
    if variable is not None:
        return f"${{oc.env:{variable[1]}}}"
    warning = "other users of this machine can read --model-api-key in the list of processes"
    print(f"gym: warning: {warning}; write --model-api-key env:NAME", file=sys.stderr)
    return spell(text)


def first_or_list(values: tuple[str, ...]) -> str:
    """Return repeated values as an override: a list, or the only value."""
    return spell(values[0] if len(values) == 1 else list(values))


def spell_list(values: tuple[str, ...]) -> str:
    """Return repeated values as an override that is always a list."""
    return spell(list(values))


def head_address(text: str) -> str:
    """Return the address of a head server, as `HOST:PORT` or a URL, as an override."""
    address = urlsplit(text if "//" in text else f"//{text}")
    with suppress(ValueError):  # of a port that is not a number
        if address.hostname and address.port:
            return f"{{host: {spell(address.hostname)}, port: {address.port}}}"
    raise click.UsageError(f"--head: {text!r} is not HOST:PORT, such as 127.0.0.1:11000.")


def comma_separated(text: str) -> str:
    """Return the parts of `text` as an override."""
    return first_or_list(tuple(text.split(",")))


JSON = Flag("--json", None, "Print JSON.")
INPUT = Flag(
    "--input -i",
    "FILE",
    "Task rows (JSONL); repeatable.",
    key="input_jsonl_fpath",
    form="texts",
    write=first_or_list,
)
OUTPUT = Flag("--output -o", "FILE", "File for the results (JSONL).", key="output_jsonl_fpath")
LIMIT = Flag("--limit", "N", "At most N tasks per dataset.", form="number")
CONCURRENCY = Flag(
    "--concurrency",
    "N",
    "Rollouts in flight, or `auto`; by default 64.",
    key="num_samples_in_parallel",
    form="value",
)
RESUME = Flag("--resume", None, "Continue the run in the output.", key="resume_from_cache")
OVERWRITE = Flag("--overwrite", None, "Move an earlier run in the output aside.")
ADD_TASKS = Flag("--add-tasks", None, "With --resume: the input may have other tasks; attempt the new ones.")
MARK_NEW_CODE = Flag(
    "--mark-new-code",
    None,
    "With --resume: the servers' code may have changed; mark the rows that it scores.",
)
UNTIL = (
    Flag("--until", "AIM", 'Stop when the mean is known: ±1%, ±0.02 or "a differs from b".'),
    Flag("--generalize", None, "With --until: the mean of all tasks like these, not of these."),
    Flag("--max-rollouts", "N", "With --until: at most N rollouts.", form="number"),
    Flag("--max-total-tokens", "N", "With --until: start no rollout after N tokens.", form="number"),
)
MARK_NEW_ENGINE = Flag(
    "--mark-new-engine",
    None,
    "With --resume: another engine may answer for the model; mark its rows.",
)
TAG = Flag(
    "--tag", "WORD", "Tag of the run in lists; repeatable.", key="tags", form="texts", write=spell_list
)
HEAD = Flag(
    "--head",
    "HOST:PORT",
    "Head server of a gym of another folder.",
    key="head_server",
    write=head_address,
)
DISCOVERY_NAME = Flag(
    "--discovery-name", "NAME", "Name of the gym among those of this folder; by default none, or a number."
)
OPENENV = Flag(
    "--openenv",
    "PORT",
    "Offer the environment by OpenEnv's protocol at this port; needs no model.",
    key="openenv_port",
    form="number",
)
SEARCH_DIR = Flag(
    "--search-dir",
    "DIR",
    "Folder with environments and servers of its own; repeatable. Also NEMO_GYM_EXTRA_ROOTS.",
    key="",
    form="texts",
)
SELECTION = (
    Flag("--environment", "NAME", "An environment; repeatable.", key="", form="texts"),
    Flag("--benchmark", "NAME", "A benchmark; repeatable.", key="", form="texts"),
    Flag("--resources-server", "NAME", "A resources server; repeatable.", key="", form="texts"),
    Flag("--config -c", "FILE", "A configuration file; repeatable.", key="", form="texts"),
    Flag("--model-type", "NAME", "Server of the policy; by default vllm_model.", key=""),
    Flag("--agent-type", "NAME", "Agent in the place of the environment's own.", key=""),
    SEARCH_DIR,
)
MODEL = (
    Flag("--model -m", "NAME", "Name of the model.", key="policy_model_name"),
    Flag("--model-url --url", "URL", "URL of its API.", key="policy_base_url"),
    Flag(
        "--model-api-key",
        "env:NAME",
        "Variable with its API key.",
        key="policy_api_key",
        write=key_or_variable,
    ),
)
SAMPLING = (
    Flag(
        "--temperature",
        "T",
        "Sampling temperature.",
        key="responses_create_params.temperature",
        form="decimal",
    ),
    Flag(
        "--top-p",
        "P",
        "Nucleus sampling: share of the probability.",
        key="responses_create_params.top_p",
        form="decimal",
    ),
    Flag(
        "--max-output-tokens",
        "N",
        "Tokens of one answer.",
        key="responses_create_params.max_output_tokens",
        form="number",
    ),
)
