"""Generates docs/export.md from the declarations of the formats.

Run `python docs/export_page.py docs/export.md` to update it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from nemo_gym.config.document import describe_default, describe_type, table_row
from nemo_gym.export.formats import NAMES, Format, find_format
from nemo_gym.export.report import LeftOut, Loss, Report
from nemo_gym.export.rollouts import RolloutFiles

_INTRODUCTION = """\
# Exports

Made from the formats' own declarations by `python docs/export_page.py docs/export.md`.

`ng_export` writes scored rollouts in the format that a trainer reads. The input is files of `ng_collect_rollouts`
(`.gz` and `.zst` too), or of any gym whose rows have the same fields. [Commands](commands.md#ng_export) lists all keys
of the command: filters by reward, outcome, length and environment, deduplication, splits. [Training](training.md)
describes the trainers.

<!-- run by: tests/docs/test_export_page.py -->
```bash
ng_export +format=sft +input=rollouts.jsonl +output=data/chosen.jsonl.zst +min_reward=1 \\
    "+splits={train:0.9,validation:0.1}"
```

Rules for every format:
- **No rollout is dropped silently.** The printed report (`+json=true`: as JSON) counts every rollout that was read. It
  is exported, or left out for one named reason, with the first such line as an example. A part of an exported rollout
  that the target can't represent is counted as a loss. A run that is running or was killed, and rows that several codes
  scored, are named beside the counts.
- **A failure is not a score.** A failed attempt is in no row, in no pair and in no mean, even if it has a `reward`:
  rewards [1, 3, 2, failed] have a baseline of 2. The same holds for rollouts that their environment or agent excluded
  from training (`_ng_masked`, `mask_sample`; `on_truncation: mask` sets both).
- **A reward that an answer could have forged is not exported.** Rows with `tamperable: true` ran their answer beside
  its tests. `+allow_tamperable=true` exports them.
- **A truncated answer is not a supervised example.** Formats for supervised training take completed rollouts only,
  unless `+outcomes=[completed,truncated]` is set. In a pair a truncated answer may be rejected, and is chosen only on
  request.
- **A wrong answer is not a supervised example.** These formats take rewards of at least 1, unless `+min_reward` or
  `+max_reward` is set. The report lists the rewards that were left out.
- **An empty answer is no example.** Formats for supervised training, `dpo` and `kto` leave out rollouts whose last message
  has neither text nor a tool call (`no_answer`), whatever their reward. Reasoning alone is no answer. Formats for
  reinforcement learning keep them.
- **An answer that broke its verifier is no example.** Its 0 is no judgement, so the same formats leave it out
  (`broke_verifier`), and nothing is preferred to it. Formats for reinforcement learning keep it with its reward.
- **Equal answers to one prompt have one label.** They are in no pair of `dpo`, and `kto` leaves them out if their labels
  differ (`contradictory`). Equal rows of a format that names no rollout are written once and counted
  (`+deduplicate=false`: all are written).
- **A group is the rollouts of one task by one agent.** Two agents of a run are two policies or two environments, so no
  baseline, pair, group size or mean is over both.
- **Filters choose rows, not baselines.** Advantages and means are over all scored rollouts of the group.
- **Token ids are those that the engine read and sampled.** A row without usable ids is left out of token formats; a
  masked call ([tokens](tokens.md)) is context there.
- **A trajectory of another program is trained on only with its tokens.** Rows with the mark `_ng_foreign` are left out unless
  every model call has its ids and log-probabilities ([task folders](task_folders.md#trajectories-in-and-out)). `atif` has them all.
- **The origin of a task folder goes with it.** `grpo`, `verl` (`form=rl`: in `extra_info`) and `prime_rl` (`form=traces`: in
  the task's `data`) have `task_origin` in each row: digest, dataset, source, licence, split and version. Readers of the
  other formats refuse further columns, so that the report alone counts their rollouts by dataset, source, licence and
  split ([task folders](task_folders.md), [environments of other projects](foreign_environments.md)).
- **A task is in the same split in every export.** Its prompt alone decides (`+split_by=task`: its number), and all of
  its rollouts stay together.
- Files are written under a temporary name and renamed when they are complete. Equal rows make equal files.\
"""

_MESSAGES = """\
## Messages
Text formats write rollouts as chat messages, as model servers send them to engines. Tool calls get consecutive ids. The
trainer applies its chat template again, which may give other tokens than the engine's (vLLM adds `"description": null`
to a tool without one). Use a token format where the tokens must be exact.\
"""

_OWN_FORMAT = """\
## Add a format
A format is one module of `nemo_gym/export/`, which reads from top to bottom without the others: `openai.py` is a short one
for text, `grpo.py` one for tokens.

1. Write `nemo_gym/export/<name>.py`. Its docstring becomes the section of this page. Subclass `Format`, and set `name`,
   `summary`, `example` (a command whose input is `rollouts.jsonl`) and `losses`. Set `outcomes = FINISHED` and `min_reward = SOLVED`
   for supervised examples, `learns_answers` if the reader trains on the text of answers, `endings` if the reader can't take Parquet, and `merges_equal_rows` if records don't name their rollout.
   Options are the fields of a subclass of `Options`, named in `options_type`.
2. `rows(group)` gets the rollouts of one task by one agent and yields the records of its file. `group.selected` are the rollouts to export,
   and `group.members` those that the baseline is over. A `ScoredRollout` has `row`, `reward`, `outcome`, `params`, `calls` and
   `read_segments()`. `read_conversation` (`_conversation.py`) returns its `ChatTranscript`: `prompt`, `completion` (which ends
   with an assistant message, perhaps without text, perhaps not the policy's: see `sampled`), `tools` and `losses`. Other members of the row are read by the functions of
   `nemo_gym/rows/` ([rows](rows.md)).
3. Nothing is dropped without a word. Every rollout of `group.selected` ends in one of three: `self.report.export(losses)`,
   `self.report.leave_out(rollout, LeftOut.…)` for reasons of its group (`dpo.py` shows it), or `Unsuitable(LeftOut.…)`, raised
   in the function that `self.report.suitable` calls for each rollout. A new reason is a member of `LeftOut` or `Loss` in
   `report.py`. `exported()` of `tests/export/rows.py` checks the sum.
4. Add the class to `_CLASSES` in `nemo_gym/export/formats.py`. Test it in `tests/export/test_<name>.py` (rows to export are
   in `tests/export/rows.py`), write what its reader checks as `check_<reader>` in `tests/export/consumers.py`, and add a case
   to `CHECKS` in `tests/export/test_formats.py`, and to `LINES_ONLY` there if Parquet is refused.
5. Name it in the description of `format` in `settings.py`. Run `python docs/export_page.py docs/export.md` and `python docs/commands_page.py docs/commands.md`, add the trainer to the
   tables of README.md and docs/training.md, and a line to "Commands" in CHANGELOG.md. The tests of the room take a minute:
   `.venv/bin/python -m pytest -n 0 tests/export tests/docs/test_export_page.py tests/docs/test_commands_page.py`.\
"""


def render_page() -> str:
    """The text of `docs/export.md`."""
    chosen = [find_format(name) for name in NAMES]
    listed = [f"| [`{each.name}`](#{each.name}) | {each.summary} |" for each in chosen]
    overview = "\n".join(["| format | content |", "|---|---|", *listed])
    return (
        "\n\n".join(
            [
                _INTRODUCTION,
                overview,
                _MESSAGES,
                *map(_render, chosen),
                _table("Losses", "exported with a loss", Loss),
                _table("Reasons for leaving rollouts out", "left out", LeftOut),
                _OWN_FORMAT,
            ]
        )
        + "\n"
    )


def _render(chosen: type[Format[Any]]) -> str:
    from_input = chosen.defaults(RolloutFiles([]))
    losses = ", ".join(f"`{loss}`" for loss in chosen.losses)
    parts = [
        f"## {chosen.name}\n{inspect.getdoc(inspect.getmodule(chosen))}",
        f"<!-- run by: tests/docs/test_export_page.py -->\n```bash\n{chosen.example}\n```",
        f"By default it takes {_defaults(chosen(chosen.options_type.model_validate(from_input), Report()))}. "
        f"It may lose: {losses}.",
    ]
    rows = list(_options(chosen.options_type.model_fields, from_input))
    if rows:
        parts.append("\n".join(["| option | value | meaning |", "|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _defaults(target: Format[Any]) -> str:
    """Describe a format with default options."""
    outcomes = " and ".join(sorted(outcome.value for outcome in target.outcomes))
    duplicates = "without duplicates" if target.merges_equal_rows else "with duplicates"
    solved = f" with a reward of at least {target.min_reward:g}" if target.min_reward is not None else ""
    return f"{outcomes} rollouts{solved}, writes them {duplicates}, as {', '.join(f'`{each}`' for each in target.endings)}"


def _options(fields: Mapping[str, FieldInfo], from_input: Mapping[str, Any]) -> Iterator[str]:
    for name, field in fields.items():
        default = "from the input" if name in from_input else describe_default(field)
        value = f"{describe_type(field.annotation)}, {default}"
        yield table_row(f"`+options.{name}`", value, field.description or "")


def _table(title: str, column: str, reasons: Iterable[LeftOut | Loss]) -> str:
    rows = [f"| `{reason}` | {reason.explanation} |" for reason in reasons]
    return "\n".join([f"## {title}", f"| {column} | because |", "|---|---|", *rows])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
