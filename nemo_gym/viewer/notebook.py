"""Rollouts in a cell of a notebook, without a server.

from nemo_gym import evaluate, view

view(evaluate("mcqa", model=...))
view("results/rollouts.jsonl", filter="reward<1")
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

import orjson

from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rows.forms import AnyRow
from nemo_gym.viewer.exporting import DEFAULT_LIMIT, export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs

_STEM = "rollouts"


@runtime_checkable
class EvaluatedRollouts(Protocol):
    """The result of `nemo_gym.evaluate`."""

    @property
    def rollouts(self) -> list[dict[str, Any]]: ...

    @property
    def failures(self) -> list[dict[str, Any]]: ...


Rollouts: TypeAlias = "str | Path | Iterable[Mapping[str, Any]] | EvaluatedRollouts"


@dataclass(frozen=True, slots=True, repr=False)
class RolloutsView:
    """The pages of the viewer with their rows. A notebook shows them in the cell's output."""

    html: str
    note: str
    """The content in words."""
    height: int
    """Pixels."""

    def __repr__(self) -> str:
        return f"RolloutsView({self.note})"

    def _repr_html_(self) -> str:
        # Without `allow-same-origin`, rows can reach neither the notebook nor its server.
        return (
            f'<iframe title="Rollouts" sandbox="allow-scripts" srcdoc="{escape(self.html)}" '
            f'style="width: 100%; height: {self.height}px; border: 1px solid #8888"></iframe>'
        )


def view(rows: Rollouts, *, filter: str = "", limit: int = DEFAULT_LIMIT, height: int = 800) -> RolloutsView:
    """Return the viewer's pages of the first `limit` rollouts that `filter` (docs/viewer.md) selects.

    `rows` is a run's file of scored rows, rows, or the result of `evaluate`. Secrets are hidden. Raises `ConfigError`
    for a file that is not a run's, and for a filter that cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="nemo_gym_view_") as folder:
        place = Path(rows) if isinstance(rows, str | Path) else _write_rows(rows, Path(folder))
        page = export_page(find_runs([place]), RowFilter(filter), limit, base="about:srcdoc")
    return RolloutsView(page.html, page.note, height)


def _write_rows(rows: Iterable[AnyRow] | EvaluatedRollouts, folder: Path) -> Path:
    files = RunFiles(folder, _STEM)
    scored, failures = (rows.rollouts, rows.failures) if isinstance(rows, EvaluatedRollouts) else (rows, ())
    for path, content in ((files.rows, scored), (files.failures, failures)):
        path.write_bytes(b"".join(orjson.dumps(row, default=str) + b"\n" for row in content))
    return files.rows
