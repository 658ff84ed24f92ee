"""The options of `gym`: each sets a key of the command that a verb runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import click

from nemo_gym.config.spelling import spelled

_VARIABLE = re.compile(r"env:([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """An option and its key."""

    names: tuple[str, ...]
    """`--output`, `-o`."""
    help: str
    key: str = ""
    """The key that it sets. Without one, the translation of the verb reads the option."""
    form: Literal["text", "texts", "number", "value", "switch"] = "text"
    """`texts` may be repeated. `value` is written as it is: a number or a word."""
    metavar: str | None = None
    write: Callable[[Any], str] = spelled
    """Writes the value as an override."""

    @property
    def parameter(self) -> str:
        """The name of its value among the parsed values."""
        return self.names[0].lstrip("-").replace("-", "_")

    def option(self) -> click.Option:
        """Return the option for the parser."""
        settings: dict[str, Any] = {"help": self.help}
        if self.form == "switch":
            settings["is_flag"] = True
        else:
            settings |= {"metavar": self.metavar, "multiple": self.form == "texts"}
            settings["type"] = click.INT if self.form == "number" else click.STRING
        return click.Option([*self.names, self.parameter], **settings)

    def overrides(self, value: Any) -> list[str]:
        """Return the override that `value` means; none for an option that is absent or has no key."""
        if not self.key or value is None or value is False or value == ():
            return []
        text = str(value) if self.form == "value" else self.write(value)
        return [f"++{self.key}={text}"]


def key_or_variable(text: str) -> str:
    """Return an API key as an override: `env:NAME` as a reference to the variable. A literal warns."""
    variable = _VARIABLE.fullmatch(text)
    if variable is not None:
        return f"${{oc.env:{variable[1]}}}"
    warning = "other users of this machine can read --model-api-key in the list of processes"
    print(f"gym: warning: {warning}; write --model-api-key env:NAME", file=sys.stderr)
    return spelled(text)


def first_or_list(values: tuple[str, ...]) -> str:
    """Return repeated values as an override: a list, or the only value."""
    return spelled(values[0] if len(values) == 1 else list(values))


def comma_separated(text: str) -> str:
    """Return the parts of `text` as an override."""
    return first_or_list(tuple(text.split(",")))


JSON = Flag(names=("--json",), key="json", form="switch", help="Print JSON.")
INPUT = Flag(
    names=("--input", "-i"),
    key="input_jsonl_fpath",
    form="texts",
    metavar="FILE",
    write=first_or_list,
    help="Task rows (JSONL); repeatable.",
)
OUTPUT = Flag(
    names=("--output", "-o"), key="output_jsonl_fpath", metavar="FILE", help="File for the results (JSONL)."
)
LIMIT = Flag(names=("--limit",), key="limit", form="number", metavar="N", help="At most N tasks per dataset.")
CONCURRENCY = Flag(
    names=("--concurrency",),
    key="num_samples_in_parallel",
    form="value",
    metavar="N",
    help="Rollouts in flight, or `auto`.",
)
RESUME = Flag(
    names=("--resume",), key="resume_from_cache", form="switch", help="Continue the run in the output."
)
OVERWRITE = Flag(
    names=("--overwrite",), key="overwrite", form="switch", help="Move an earlier run in the output aside."
)
SEARCH_DIR = Flag(
    names=("--search-dir",),
    form="texts",
    metavar="DIR",
    help="Folder with environments and servers of its own; repeatable. Also NEMO_GYM_EXTRA_ROOTS.",
)
SELECTION = (
    Flag(names=("--environment",), form="texts", metavar="NAME", help="An environment; repeatable."),
    Flag(names=("--benchmark",), form="texts", metavar="NAME", help="A benchmark; repeatable."),
    Flag(names=("--resources-server",), form="texts", metavar="NAME", help="A resources server; repeatable."),
    Flag(names=("--config", "-c"), form="texts", metavar="FILE", help="A configuration file; repeatable."),
    Flag(names=("--model-type",), metavar="NAME", help="Server of the policy; by default vllm_model."),
    Flag(names=("--agent-type",), metavar="NAME", help="Agent in the place of the environment's own."),
    SEARCH_DIR,
)
MODEL = (
    Flag(names=("--model", "-m"), key="policy_model_name", metavar="NAME", help="Name of the model."),
    Flag(names=("--model-url", "--url"), key="policy_base_url", metavar="URL", help="URL of its API."),
    Flag(
        names=("--model-api-key",),
        key="policy_api_key",
        metavar="env:NAME",
        write=key_or_variable,
        help="Variable with its API key.",
    ),
)
SAMPLING = (
    Flag(
        names=("--temperature",),
        key="responses_create_params.temperature",
        form="value",
        metavar="T",
        help="Sampling temperature.",
    ),
    Flag(names=("--top-p",), key="responses_create_params.top_p", form="value", metavar="P", help="Nucleus."),
    Flag(
        names=("--max-output-tokens",),
        key="responses_create_params.max_output_tokens",
        form="number",
        metavar="N",
        help="Tokens of one answer.",
    ),
)
