"""The generated page of a row's members.

`python docs/rows_page.py docs/rows.md` updates it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from nemo_gym.config.document import table_row
from nemo_gym.rows.fields import CONTRACT, FIELDS, Form, JsonSchema, RowField
from nemo_gym.rows.verdict import EndReason
from nemo_gym.rows.version import ROW_VERSION

_INTRODUCTION = f"""\
# Rows

A row is one line of JSON: a task, its response and its reward. This page is made from `nemo_gym/rows/fields.py` by
`python docs/rows_page.py docs/rows.md`, and describes version {ROW_VERSION}. `ng_schema +row=scored` prints the same as JSON
Schema; the forms are `task`, `scored` and `failure`.

| form | where | is |
|---|---|---|
| task | the dataset, `<stem>_materialized_inputs.jsonl`, the body of `POST /run` | a request, its agent, and what the environment reads |
| scored | `<stem>.jsonl`, the answer of `POST /run` | a task with its response and its reward |
| failure | `<stem>_failures.jsonl` | a task with its failure, without a reward |

Verifiers and agents add members of their own. Keys that begin with `_ng_` belong to the gym, which removes them from the
rows of a dataset.

## The verdict
`nemo_gym.rows.verdict` decides for every reader (collector, metrics, exports, client, viewer, health check):

1. A row with a failure class is a failure.
2. A row without a reward is a failure. A reward is a finite number; a Boolean, null, NaN or a text is none.
3. A row with another outcome than `completed` and `truncated` is a failure.
4. Every other row is scored. If it has no outcome, because another gym wrote it, it is `truncated` if its response has
   `incomplete_details`, and `completed` otherwise.

A masked row is scored: it counts in metrics, and trainers skip it.

## The identity
`nemo_gym.rows.numbering` reads the identities of a file's rows for every reader. An index is an integer; a Boolean, a
fraction or a text is refused with its line, and is a fault of the health check. A file of another program may have no
indices: the rows with one `responses_create_params` are then the repeats of a task, and tasks are numbered in the order of their
first rows. A row without them, too, is a task of its own, and readers say how many there are. A file that states the tasks of some rows only is refused. A byte order mark belongs to no row, and an incomplete last row is
left out with a note.

## The version
`_ng_row_version` is `major.minor`. A minor version adds keys, and a major one changes the meaning of a key. A row without a
version (an older file, another gym) is read like 1.0, and one file may mix both. A row of a newer major version is refused with
its file and line.

## Add an end reason
1. Add a member to `EndReason` in `nemo_gym/rows/verdict.py`, with a docstring. If the policy was not cut off, add it to
   `_COMPLETED`, so that its outcome is `completed`; every other reason is `truncated`.
2. Return it from the agent: `Act(response, EndReason.NEW_REASON)`. An agent on `Policy` ([agents](agents.md)) returns it
   from its turn, and `trajectory.end(reason)` makes the `Act`.
3. Run `python docs/rows_page.py docs/rows.md` and the tests in `tests/rows` and `tests/docs/test_rows_page.py`. Name a new
   limit in `docs/failures.md` and `docs/agents.md`.

The closing table and the manifest count reasons by their text; the viewer (filter `end:max_steps`), `health-check`,
`nemo_gym.evaluate` and the prime-rl export show them. None needs a change, and neither does the version: a reader that
does not know a reason goes by `_ng_outcome`. The reasons are {", ".join(f"`{reason}`" for reason in EndReason)}.

## Add a key
1. Name it in `nemo_gym/rows/keys.py`, and describe it in `nemo_gym/rows/fields.py`.
2. Write it in `nemo_gym/rows/compose.py`. A value from the agent is a field of `Act`, which `nemo_gym/episodes/driver.py`
   passes on; `Act.notes` are for an agent's own members. A mark that only results have belongs to `RESULT_MARKS` there, so
   that a task row cannot bring it along.
3. Read it by a function in `verdict.py` or `parts.py`. A key needs a reader: name it in `read_by`. No other room spells the
   key; `tests/test_row_keys.py` sees to it. Numbers of the gym become columns of the viewer only by a line in `build_entry`
   (`nemo_gym/rollouts/output/row_index.py`).
4. A new key raises the minor version in `nemo_gym/rows/version.py`. Run `python docs/rows_page.py docs/rows.md`, add the key
   to a row of `tests/rows/test_fields.py`, which checks rows against the schema, and run
   `.venv/bin/python -m pytest -n 0 tests/rows tests/test_row_keys.py tests/docs/test_rows_page.py tests/rollouts/run`.

## Members
"always" is for rows of this gym. "since" is the row version that introduced the key, or {CONTRACT}, whose gyms have it too.\
"""
_HEAD = ["| key | form | value | meaning | written by | read by | since |", "|---|---|---|---|---|---|---|"]


def render_page() -> str:
    """Return the text of `docs/rows.md`."""
    return "\n".join([_INTRODUCTION, "", *_HEAD, *map(_render_field, FIELDS)]) + "\n"


def _render_field(field: RowField) -> str:
    return table_row(
        f"`{field.key}`",
        ", ".join(_name_forms(field)),
        _name_type(field.schema),
        field.meaning,
        field.written_by,
        field.read_by,
        field.since,
    )


def _name_forms(field: RowField) -> Iterator[str]:
    for form in Form:
        if form in field.forms:
            yield f"{form} (always)" if form in field.required else form.value


def _name_type(schema: JsonSchema) -> str:
    if "enum" in schema:
        return "text"
    kind = schema["type"]
    return kind if isinstance(kind, str) else " or ".join(kind)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render_page(), encoding="utf-8")
