"""Runs in one HTML file: the rows that a filter selects, without secrets, in the pages of the viewer.

The figures and comparisons are those of the whole runs: the file holds the columns of all rows, and answers about the
original runs. The selected rows are written to a private folder as runs of their own; causes of failures and flags are
theirs.
"""

from __future__ import annotations

import os
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from itertools import accumulate, combinations, permutations
from pathlib import Path
from typing import Any, Final

from nemo_gym.config.loading import outline
from nemo_gym.config.problems import Problems
from nemo_gym.config.secrets import add_copies, hide_secrets, secret_values
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.json_objects import dump_json, parse_json, parse_object
from nemo_gym.rollouts.lookback.comparison import task_title
from nemo_gym.rollouts.lookback.health import check_health
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import is_torn
from nemo_gym.rollouts.output.row_index import BLOCK_ROWS, BlockBuilder, RowEntry, build_blocks, build_entry
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.run.failure_groups import group_file
from nemo_gym.rows.identity import identity_in, read_task_index
from nemo_gym.rows.version import require_readable
from nemo_gym.tokens.vocabulary import Vocabulary
from nemo_gym.viewer.companions import is_deep, show_path
from nemo_gym.viewer.equal_tasks import FollowedTasks
from nemo_gym.viewer.families import describe_family
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.indexing import LinePlace
from nemo_gym.viewer.row_views import build_card, build_flags, build_tokens
from nemo_gym.viewer.run_tables import build_ranking, build_tables, compare_runs
from nemo_gym.viewer.runs import Run
from nemo_gym.viewer.single_file import single_file

DEFAULT_LIMIT: Final = 1000
"""Rollouts of a run, and failed attempts of it, in one file."""
_FIGURE_LABELS: Final = ("outcome", "agent", "policy_version")
"""The labels that figures are made by."""
_MOST_KNOWN: Final = 4096
_MOST_COMPARED: Final = 4
"""Runs of a file that holds the comparisons of all of them."""
_LOOKED_FOR: Final = (
    "Looked for: values under names of secrets, keys in the forms of known services, credentials in URLs, and the "
    "secrets of this environment and env.yaml. Secrets of other forms remain."
)
_OF_WHOLE: Final = (
    " are in this page; the figures and comparisons are of all {total}, the causes of failures and the flags of those "
    "in the page"
)
_FORMULA_MARKS: Final = (b"$", rb"\\(", rb"\\[")
"""The beginnings of formulas in the JSON of a row."""


@dataclass(frozen=True, slots=True)
class ExportedPage:
    """The content of a file, and its description."""

    html: str
    note: str
    """The content in words: `12 of 4,096 rollouts and 0 of 3 failed attempts of rollouts.jsonl. …`."""
    notes: tuple[str, ...] = ()
    """Facts that the figures of the runs do not tell, such as rows that lack, or scores by several codes."""


@dataclass(slots=True)
class _Selected:
    """The chosen rows of one file, without secrets."""

    lines: list[bytes] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    total: int = 0
    scrubbed: int = 0
    """Rows in which a secret was hidden."""
    unreadable: int = 0
    """Lines that are left out because they are not rows, or have too many levels to hide secrets in them."""
    columns: set[str] = field(default_factory=set)
    """The names of the numbers of all rows, chosen or not."""
    whole: bytes = b""
    """The blocks of all rows, if some are not chosen."""

    @property
    def is_whole(self) -> bool:
        """Return whether all rows are chosen."""
        return len(self.lines) == self.total

    def places(self) -> list[LinePlace]:
        ends = accumulate(map(len, self.lines))
        return [LinePlace(end - len(line), len(line)) for end, line in zip(ends, self.lines, strict=True)]


class _WholeColumns:
    """The numbers of all rows of a file, and the labels that figures are made by, without secrets."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._builder = BlockBuilder(0)
        self._blocks: list[bytes] = []
        self._hide = lru_cache(_MOST_KNOWN)(partial(hide_secrets, known=secrets))

    def add(self, entry: RowEntry) -> None:
        numbers = {self._hide(name): number for name, number in entry.numbers.items()}
        labels = {name: self._hide(entry.labels.get(name)) for name in _FIGURE_LABELS}
        self._builder.add(RowEntry(numbers, labels), b"\n")  # the row itself is not in the file
        if len(self._builder) == BLOCK_ROWS:
            self._seal()

    def encode(self) -> bytes:
        """Return the blocks."""
        if len(self._builder):
            self._seal()
        return b"".join(self._blocks)

    def _seal(self) -> None:
        self._blocks.append(self._builder.encode())
        self._builder = BlockBuilder(self._builder.end)


def export_page(
    runs: Sequence[Run],
    row_filter: RowFilter,
    limit: int = DEFAULT_LIMIT,
    *,
    vocabulary: Vocabulary | None = None,
    base: str | None = None,
) -> ExportedPage:
    """Return the page with the first `limit` rows, and failed attempts, of each run that `row_filter` selects.

    Lines that are not rows are counted and left out. Raises `ConfigError` if the filter names an unknown column, or
    for a row of a newer version.
    """
    secrets = _list_known_secrets()
    chosen = {
        run.id: {
            kind: _Selected() if run.fault(path) else _select(path, row_filter, limit, secrets)
            for kind, path in (("rows", run.files.rows), ("failures", run.files.failures))
        }
        for run in runs
    }
    files = [each for kinds in chosen.values() for each in kinds.values()]
    row_filter.check_columns(set().union(*(each.columns for each in files)))
    note = _note(runs, files, chosen, row_filter)
    tables = dict(_tables(runs, secrets))
    whole = tables[_name_table(runs)]["runs"] if tables else []
    notes: dict[str, list[str]] = {each["id"]: each["notes"] for each in whole}
    answers = _answer_about_all(runs, chosen, notes, secrets, vocabulary)
    answers |= tables | dict(_comparisons(runs, chosen, secrets))
    has_formulas = any(mark in line for each in files for line in each.lines for mark in _FORMULA_MARKS)
    html = single_file(note, answers, base=base, has_formulas=has_formulas)
    return ExportedPage(html, note, tuple(told for own in notes.values() for told in own))


def _answer_about_all(
    runs: Sequence[Run],
    chosen: Mapping[str, Mapping[str, _Selected]],
    notes: Mapping[str, Sequence[str]],
    secrets: Iterable[str],
    vocabulary: Vocabulary | None,
) -> dict[str, Any]:
    """Return the answers about each run by path, and that about the list of runs."""
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="nemo_gym_export_") as folder:
        copies = {run.id: RunFiles(Path(folder), run.id) for run in runs}
        for run in runs:
            kinds = chosen[run.id]
            for kind, path in (("rows", copies[run.id].rows), ("failures", copies[run.id].failures)):
                path.write_bytes(b"".join(kinds[kind].lines))
            answers[f"runs/{run.id}"] = _details(run, runs, kinds, secrets) | {"notes": notes.get(run.id, [])}
            answers |= dict(_whole_answers(run, kinds))
            answers[f"runs/{run.id}/nodes"] = hide_secrets({"nodes": run.nodes()}, secrets)
            answers |= dict(_answers_about(run.id, copies[run.id], kinds, vocabulary or run.vocabulary()))
        answers["runs"] = {"runs": [answers[f"runs/{run.id}"] for run in runs]}
    return answers


def _select(path: Path, row_filter: RowFilter, limit: int, secrets: Iterable[str]) -> _Selected:
    found, whole = _Selected(), _WholeColumns(secrets)
    for number, line in read_lines(path) if holds_text(path) else ():
        if is_torn(line):
            continue
        line = line if line.endswith(b"\n") else line + b"\n"
        row = parse_object(line)
        if row is None or is_deep(row):
            found.unreadable += 1
            continue
        require_readable(row, f"{path}:{number}")
        found.total += 1
        entry = build_entry(row)
        found.columns |= entry.numbers.keys()
        whole.add(entry)
        if len(found.lines) >= limit or not row_filter.matches(entry, line):
            continue
        hidden = hide_secrets(row, secrets)
        if hidden != row:
            found.scrubbed += 1
            line = dump_json(hide_secrets(parse_json(line), secrets)) + b"\n"
        found.lines.append(line)
        found.rows.append(hidden)
    if not found.is_whole:
        found.whole = whole.encode()
    return found


def _list_known_secrets() -> frozenset[str]:
    """Return the secrets of the environment and of `env.yaml`, and their copies in other spellings."""
    return add_copies(secret_values(dict(os.environ)) | secret_values(outline([], Path.cwd(), Problems())))


def _details(
    run: Run, runs: Sequence[Run], kinds: Mapping[str, _Selected], secrets: Iterable[str]
) -> dict[str, Any]:
    details = run.details() | describe_family(run, runs)
    totals = {kind: selected.total for kind, selected in kinds.items()}
    held = {kind: [len(selected.lines), selected.total] for kind, selected in kinds.items()}
    planned = max(details["planned"] or 0, totals["rows"])
    own = {"path": run.files.rows.name, "planned": planned, **totals, "held": held}
    return {**hide_secrets(details, secrets), **own}


def _whole_answers(run: Run, kinds: Mapping[str, _Selected]) -> Iterator[tuple[str, Any]]:
    """Yield the answers that figures of the whole run are computed from."""
    for kind, selected in kinds.items():
        if not selected.is_whole:
            yield f"runs/{run.id}/figures?kind={kind}", _encode(selected.whole)
    tasks = FollowedTasks(run)
    with (
        closing(tasks),
        suppress(GymError),
    ):  # the page says that it does not hold them, and shows no interval
        yield f"runs/{run.id}/equal_tasks", {"firsts": tasks.read_equal()}


def _encode(blocks: bytes) -> dict[str, str]:
    return {"b64": b64encode(blocks).decode()}


def _answers_about(
    name: str, files: RunFiles, kinds: Mapping[str, _Selected], vocabulary: Vocabulary
) -> Iterator[tuple[str, Any]]:
    """Yield the answers about one run by path."""
    for kind, selected in kinds.items():
        blocks = b"".join(build_blocks(selected.lines))
        yield f"runs/{name}/blocks?kind={kind}", _encode(blocks)
        for line, row, place in zip(selected.lines, selected.rows, selected.places(), strict=True):
            at = f"{place.start}-{place.length}?kind={kind}"
            yield f"runs/{name}/rows/{at}", line.decode()
            yield f"runs/{name}/cards/{at}", build_card(row)
            tokens = build_tokens(row, vocabulary) if kind == "rows" else None
            if tokens is not None:
                yield f"runs/{name}/tokens/{at}", tokens
    rows = kinds["rows"]
    scored = {identity for row in rows.rows if (identity := identity_in(row)) is not None}
    groups = [{**asdict(group), "log": []} for group in group_file(files.failures, scored)]
    yield f"runs/{name}/failures", {"groups": groups}
    flags = build_flags(check_health(files.rows), rows.places()) if rows.lines else []
    yield f"runs/{name}/flags", {"rows": len(rows.lines), "flags": flags}


def _tables(runs: Sequence[Run], secrets: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the tables of all runs, and of some of them each if they are few, as whole runs; none for damaged ones."""
    sizes = range(2, len(runs) + 1) if 1 < len(runs) <= _MOST_COMPARED else (len(runs),)
    subsets = [places for size in sizes for places in combinations(range(len(runs)), size)]
    with suppress(GymError):
        for places, table in zip(subsets, build_tables(runs, subsets), strict=True):
            for run in table["runs"]:
                run["notes"] = [*_shorten_notes(run)]
                run["path"] = Path(run["path"]).name
            yield (
                _name_table([runs[place] for place in places]),
                hide_secrets({**table, "problems": []}, secrets),
            )


def _name_table(runs: Sequence[Run]) -> str:
    return f"table?runs={','.join(run.id for run in runs)}"


def _comparisons(
    runs: Sequence[Run], chosen: Mapping[str, Mapping[str, _Selected]], secrets: Iterable[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the ranking of all runs, and the comparisons of all pairs of them, as whole runs.

    Runs that cannot be ranked or paired have no such answer. The titles are those of chosen tasks.
    """
    if len(runs) < 2:
        return
    with suppress(GymError):
        yield f"rank?runs={','.join(run.id for run in runs)}", hide_secrets(build_ranking(runs), secrets)
    if len(runs) > _MOST_COMPARED:
        return
    for before, after in permutations(runs, 2):
        try:
            found = compare_runs(before, after)
        except GymError:
            continue
        rows = chosen[before.id]["rows"].rows
        titles = {read_task_index(row): task_title(row) for row in reversed(rows)}
        for task in found["changed"]:
            task["question"] = titles.get(task["task_before"], "")
        notes = [{"notes": [*_shorten_notes(told)]} for told in found["runs"]]
        shown = {**found, "problems": [], "runs": notes}
        yield f"compare?before={before.id}&after={after.id}", hide_secrets(shown, secrets)


def _shorten_notes(account: Mapping[str, Any]) -> Iterator[str]:
    """Yield the notes of a run with the name of its file in the place of its path."""
    for note in account["notes"]:
        yield show_path(note).replace(account["path"], Path(account["path"]).name)


def _note(
    runs: Sequence[Run],
    files: Sequence[_Selected],
    chosen: Mapping[str, Mapping[str, _Selected]],
    row_filter: RowFilter,
) -> str:
    parts = []
    for kind, words in (("rows", "rollouts"), ("failures", "failed attempts")):
        selected = [kinds[kind] for kinds in chosen.values()]
        shown, total = sum(len(each.lines) for each in selected), sum(each.total for each in selected)
        parts.append(f"{shown:,} of {total:,} {words}")
    names = runs[0].files.rows.name if len(runs) == 1 else f"{len(runs)} runs"
    scrubbed = sum(each.scrubbed for each in files)
    filtered = f", filtered by {row_filter.text}" if row_filter.text.strip() else ""
    total = sum(kinds["rows"].total for kinds in chosen.values())
    of_whole = "" if all(each.is_whole for each in files) else _OF_WHOLE.format(total=f"{total:,}")
    hidden = f"Secrets are hidden in {scrubbed:,} of them." if scrubbed else "Nothing was hidden in them."
    unreadable = sum(each.unreadable for each in files)
    left_out = f" {unreadable:,} unreadable lines are left out." if unreadable else ""
    states = (run.describe_progress(chosen[run.id]["rows"].total) for run in runs)
    unfinished = "".join(f" {state}." for state in states if state is not None)
    return (
        f"{' and '.join(parts)} of {names}{filtered}{of_whole}. {hidden} {_LOOKED_FOR}{left_out}{unfinished}"
    )


def check_target(path: Path) -> None:
    """Raise `ConfigError` unless a page can be written to `path`, which must not be a file of another kind."""
    if path.suffix not in (".html", ".htm"):
        raise ConfigError(
            f"the export {path} does not end in .html",
            code="export_name",
            remedy=f"Write to {path.with_suffix('.html')}.",
        )
