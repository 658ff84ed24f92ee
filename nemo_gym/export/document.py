"""The page of all export formats, made from what their modules declare.

`python -m nemo_gym.export.document docs/export.md` brings it up to date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from nemo_gym.config.document import describe_default, describe_type, table_row
from nemo_gym.export._formats import NAMES, Format, find_format
from nemo_gym.export._rollouts import RolloutFiles
from nemo_gym.export.report import LOSSES, SENTENCES, Report

_INTRODUCTION = """\
# Exports

Made from the formats' own declarations by `python -m nemo_gym.export.document docs/export.md`.

`ng_export` writes scored rollouts in the form that a trainer reads. Input are files of `ng_collect_rollouts` (`.gz` and
`.zst` are read too), or of any gym whose rows have the same fields. All keys of the command (filters by reward,
outcome, length and environment, deduplication, splits) are among the [commands](commands.md#ng_export); trainers are on
a page of [their own](training.md).

```bash
ng_export +format=sft +input=rollouts.jsonl +output=data/chosen.jsonl.zst +min_reward=1 \\
    "+splits={train:0.9,validation:0.1}"
```

What holds for every format:
- **Nothing is dropped in silence.** The printed report (`+json=true`: as JSON) counts every rollout that was read: it
  is exported, or left out for one named reason, with the first such line as an example. What a target can't carry of
  a rollout that is exported all the same is told as a loss.
- **A failure is no score.** A failed attempt is in no row, in no pair and in no mean, whatever `reward` stands on it:
  rewards [1, 3, 2, failed] have a baseline of 2. Neither is a rollout that its environment or agent marked as not to be
  trained on (`_ng_masked`, `mask_sample`; `on_truncation: mask` sets both).
- **What was cut off is no example to learn**: formats that are learnt by heart take completed rollouts alone, unless
  `+outcomes=[completed,truncated]` asks for both.
- **Filters choose rows, not baselines.** Advantages and means are over all scored rollouts of the task.
- **Tokens are those that the engine read and sampled**, or none. A row without usable ids is left out of token formats;
  a masked call ([tokens](tokens.md)) is context there, and never zeros.
- **A task is in the same split** in every export: its prompt alone decides (`+split_by=task`: its number), and all of
  its rollouts stay together.
- Files are written beside their place and moved there when they are whole; equal rows make equal files.\
"""

_MESSAGES = """\
## Messages
Formats of text render rollouts as chat messages, as model servers send them to engines; ids of tool calls are made
anew, in order. A trainer renders them with a chat template again. Where that must not change a token, take a token
format: an engine may have rendered something else (vLLM adds `"description": null` to a tool without one).\
"""


def render_page() -> str:
    """The text of `docs/export.md`."""
    chosen = [find_format(name) for name in NAMES]
    listed = [f"| [`{each.name}`](#{each.name}) | {each.summary} |" for each in chosen]
    overview = "\n".join(["| format | what it is |", "|---|---|", *listed])
    return (
        "\n\n".join(
            [
                _INTRODUCTION,
                overview,
                _MESSAGES,
                *map(_render, chosen),
                _table("Losses", "exported with a loss", LOSSES),
                _table("What is left out", "left out", SENTENCES),
            ]
        )
        + "\n"
    )


def _render(chosen: type[Format[Any]]) -> str:
    told = chosen.defaults(RolloutFiles([]))
    losses = ", ".join(f"`{loss}`" for loss in chosen.losses)
    parts = [
        f"## {chosen.name}\n{inspect.getdoc(inspect.getmodule(chosen))}",
        f"```bash\n{chosen.example}\n```",
        f"By itself it takes {_habits(chosen(chosen.options_type.model_validate(told), Report()))}. "
        f"It may lose: {losses}.",
    ]
    rows = list(_options(chosen.options_type.model_fields, told))
    if rows:
        parts.append("\n".join(["| option | value | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _habits(target: Format[Any]) -> str:
    """What a format does that was told nothing."""
    outcomes = " and ".join(sorted(outcome.value for outcome in target.outcomes))
    equal = "equal rows once" if target.merges_equal_rows else "equal rows each"
    return f"{outcomes} rollouts, {equal}, and writes {', '.join(f'`{each}`' for each in target.endings)}"


def _options(fields: Mapping[str, FieldInfo], told: Mapping[str, Any]) -> Iterator[str]:
    for name, field in fields.items():
        default = "told by the input" if name in told else describe_default(field)
        value = f"{describe_type(field.annotation)}, {default}"
        yield table_row(f"`+options.{name}`", value, field.description or "")


def _table(title: str, told_as: str, sentences: Mapping[Any, str]) -> str:
    rows = [f"| `{reason}` | {sentence} |" for reason, sentence in sentences.items()]
    return "\n".join([f"## {title}", f"| {told_as} | because |", "|---|---|", *rows])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
