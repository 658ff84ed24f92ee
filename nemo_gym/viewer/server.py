"""The routes of the viewer. All but those of control read; docs/viewer.md describes them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import FastAPI, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.staticfiles import StaticFiles

from nemo_gym.failures import ConfigError, GymError, InputError
from nemo_gym.json_objects import dump_json, parse_object
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.rollouts.lookback.health import check_health
from nemo_gym.rollouts.output.run_state import RunState
from nemo_gym.rollouts.run.failure_groups import group_file
from nemo_gym.rows.forms import AnyRow
from nemo_gym.tokens.vocabulary import Vocabulary
from nemo_gym.viewer import audit_pages
from nemo_gym.viewer.controlling import add_control_routes
from nemo_gym.viewer.equal_tasks import FollowedTasks
from nemo_gym.viewer.failure_logs import lines_around, read_failure_logs
from nemo_gym.viewer.families import describe_family
from nemo_gym.viewer.finding import FollowedRuns
from nemo_gym.viewer.indexing import FollowedRows
from nemo_gym.viewer.nodes import logs_in
from nemo_gym.viewer.row_views import build_card, build_flags, build_tokens
from nemo_gym.viewer.run_tables import build_ranking, build_table, compare_runs
from nemo_gym.viewer.runs import Run
from nemo_gym.viewer.searching import search
from nemo_gym.viewer.unfinished import UnfinishedRuns

PAGE = Path(__file__).parent / "page"
_ANSWER_BYTES = 8 << 20
"""Bytes of blocks in one answer."""
_FIRST_ANSWER_BYTES = 1 << 20
"""Bytes of blocks in the first answer, so that the page shows rows before it has all of them."""
_MOST_BLOCKS = 1 << 31
_MOST_CARDS = 100
_MOST_RANKED = 50
_CHECK_TIMEOUT_S = 3600.0
_JSON = "application/json"

Kind = Literal["rows", "failures"]


class Viewer:
    """Runs with their indexed files."""

    def __init__(
        self, runs: Sequence[Run], vocabulary: Vocabulary | None = None, *, places: Sequence[Path] = ()
    ) -> None:
        """`places`: folders that are followed: runs that appear below them are shown."""
        self.places = places
        self.runs = FollowedRuns(runs, places)
        self._vocabulary = vocabulary
        self.pool = WorkerPool()
        self._indexed: dict[tuple[str, Kind], FollowedRows] = {}
        self._tasks: dict[str, FollowedTasks] = {}
        self.unfinished = UnfinishedRuns(lambda name: self.rows(name, "rows"))

    def run(self, name: str) -> Run:
        """Return a run. Raises `InputError` (404)."""
        run = self.runs.find_run(name)
        if run is None:
            raise InputError(f"there is no run {name!r}", code="no_run", status=404)
        return run

    def details(self, name: str) -> dict[str, Any]:
        """Return the details of a run, with the runs that it belongs to. Raises `InputError` (404)."""
        run = self.run(name)
        return run.details() | describe_family(run, self.runs.list_runs())

    def rows(self, name: str, kind: Kind) -> FollowedRows:
        """Return the rows or the failures of a run. Raises `InputError` (404)."""
        run = self.run(name)
        files, key = run.files, (name, kind)
        if key not in self._indexed:
            path, index = (
                (files.rows, files.index) if kind == "rows" else (files.failures, files.failures_index)
            )
            self._indexed[key] = FollowedRows(
                path,
                index,
                self.pool,
                is_readable=lambda path: run.fault(path) is None,
                may_store=lambda: run.state() is not RunState.RUNNING,
            )
        return self._indexed[key]

    def tasks(self, name: str) -> FollowedTasks:
        """Return the task rows of a run. Raises `InputError` (404)."""
        run = self.run(name)
        return self._tasks.setdefault(name, FollowedTasks(run))

    async def row(self, name: str, kind: Kind, place: str) -> bytes:
        """Return the bytes of a row at `<start>-<length>`. Raises `InputError` (404)."""
        row = await self.rows(name, kind).read_row(*_place_in(place))
        if row is None:
            raise InputError(f"the file has no row at {place!r}", code="no_row", status=404)
        return row

    def tokens(self, name: str, row: AnyRow) -> dict[str, Any] | None:
        """Return the tokens of a row, with the texts of the tokenizer or else of the run; None without a record."""
        return build_tokens(row, self._vocabulary or self.run(name).vocabulary())

    async def close(self) -> None:
        """Stop reading, and end the workers."""
        for rows in self._indexed.values():
            await rows.close()
        for tasks in self._tasks.values():
            tasks.close()
        await self.pool.close()


def make_app(viewer: Viewer) -> FastAPI:
    """Return the app that shows the runs of `viewer`. It has no access control: see `access.GuardedApp`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_exception_handler(GymError, _answer_error)
    _add_run_routes(app, viewer)
    _add_comparison_routes(app, viewer)
    _add_row_routes(app, viewer)
    add_control_routes(app, viewer.run)
    _add_audit_routes(app, viewer)
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


def _add_audit_routes(app: FastAPI, viewer: Viewer) -> None:
    @app.get(audit_pages.ROUTE)
    async def show_audits() -> Response:
        cards = await asyncio.to_thread(audit_pages.find_cards, viewer.places)
        return Response(audit_pages.write_page(cards), media_type="text/html")

    @app.get(audit_pages.STYLE_ROUTE)
    async def show_audit_style() -> Response:
        return Response(audit_pages.STYLE, media_type="text/css")


def _add_run_routes(app: FastAPI, viewer: Viewer) -> None:
    @app.get("/api/runs")
    async def runs() -> Response:
        summaries = await asyncio.to_thread(viewer.runs.summarize)
        return _json({"runs": await viewer.unfinished.fill(summaries)})

    @app.get("/api/runs/{name}")
    async def details(name: str) -> Response:
        return _json(await asyncio.to_thread(viewer.details, name))

    @app.get("/api/runs/{name}/equal_tasks")
    async def equal_tasks(name: str) -> Response:
        return _json({"firsts": await asyncio.to_thread(viewer.tasks(name).read_equal)})

    @app.get("/api/runs/{name}/failures")
    async def failures(name: str) -> Response:
        path, rows = await viewer.rows(name, "failures").plain(), viewer.rows(name, "rows")
        if path is None:
            return _json({"groups": []})
        await rows.refresh()
        return _json({"groups": await asyncio.to_thread(_groups_in, path, rows, viewer.run(name).logs())})

    @app.get("/api/runs/{name}/nodes")
    async def nodes(name: str) -> Response:
        return _json({"nodes": await asyncio.to_thread(viewer.run(name).nodes)})

    @app.get("/api/runs/{name}/log")
    async def log(
        name: str, file: str, at: Annotated[float | None, Query(allow_inf_nan=False)] = None
    ) -> Response:
        return _json(await asyncio.to_thread(_read_node_log, viewer.run(name), file, at))

    @app.get("/api/runs/{name}/flags")
    async def flags(name: str) -> Response:
        run, rows = viewer.run(name), viewer.rows(name, "rows")
        if await rows.plain() is None:
            return _json({"rows": 0, "flags": []})
        report = await viewer.pool.run(check_health, run.files.rows, timeout_s=_CHECK_TIMEOUT_S)
        await rows.refresh(_CHECK_TIMEOUT_S)
        return _json({"rows": report.rows, "flags": build_flags(report, rows.places())})


def _add_comparison_routes(app: FastAPI, viewer: Viewer) -> None:
    @app.get("/api/compare")
    async def compared(before: str, after: str) -> Response:
        runs = [viewer.run(name) for name in (before, after)]
        return _json(await asyncio.to_thread(compare_runs, *runs))

    @app.get("/api/table")
    async def tabled(runs: str) -> Response:
        chosen = [viewer.run(name) for name in dict.fromkeys(runs.split(",")[:_MOST_RANKED])]
        return _json(await asyncio.to_thread(build_table, chosen))

    @app.get("/api/rank")
    async def ranked(runs: str) -> Response:
        chosen = [viewer.run(name) for name in dict.fromkeys(runs.split(",")[:_MOST_RANKED])]
        return _json(await asyncio.to_thread(build_ranking, chosen))


def _add_row_routes(app: FastAPI, viewer: Viewer) -> None:
    @app.get("/api/runs/{name}/blocks")
    async def blocks(
        name: str, kind: Kind = "rows", first: Annotated[int, Query(alias="from", ge=0, le=_MOST_BLOCKS)] = 0
    ) -> Response:
        rows = viewer.rows(name, kind)
        await rows.refresh_soon()
        sent = _take_at_most(rows.blocks[first:], _ANSWER_BYTES if first else _FIRST_ANSWER_BYTES)
        headers = {
            "x-blocks-sealed": str(len(rows.blocks)),
            "x-generation": str(rows.generation),
            "x-indexed-bytes": str(rows.indexed_bytes),
            "x-total-bytes": str(rows.total_bytes),
        }
        return Response(b"".join(sent), media_type="application/octet-stream", headers=headers)

    @app.get("/api/runs/{name}/rows/{place}")
    async def row(name: str, place: str, kind: Kind = "rows") -> Response:
        return Response(await viewer.row(name, kind, place), media_type=_JSON)

    @app.get("/api/runs/{name}/cards")
    async def cards(name: str, at: str, kind: Kind = "rows") -> Response:
        places = at.split(",")[:_MOST_CARDS]
        found = [await viewer.row(name, kind, place) for place in places]
        return _json({"cards": [build_card(parse_object(row) or {}) for row in found]})

    @app.get("/api/runs/{name}/tokens/{place}")
    async def tokens(name: str, place: str) -> Response:
        row = parse_object(await viewer.row(name, "rows", place)) or {}
        found = await asyncio.to_thread(viewer.tokens, name, row)
        if found is None:
            raise InputError("the row has no token record", code="no_tokens", status=404)
        return _json(found)

    @app.get("/api/runs/{name}/search")
    async def search_rows(name: str, q: str, kind: Kind = "rows") -> Response:
        path = await viewer.rows(name, kind).plain()
        lines = _search_lines(path, q, viewer.pool)
        return StreamingResponse(lines, media_type="application/x-ndjson")


def _groups_in(path: Path, scored: FollowedRows, logs: Path | None) -> list[dict[str, Any]]:
    """Return the groups of failures as JSON, each with the log lines around its first failure."""
    groups = group_file(path, scored.list_rollouts())
    with path.open("rb") as file:

        def log_around(start: int, length: int) -> list[dict[str, Any]]:
            return read_failure_logs(parse_object(os.pread(file.fileno(), length, start)) or {}, logs)

        return [{**asdict(group), "log": log_around(*group.rows[0])} for group in groups]


def _read_node_log(run: Run, file: str, moment: float | None) -> dict[str, Any]:
    """Return lines of a log that the run's nodes name. Raises `InputError` (404)."""
    logs = run.logs()
    path = logs / file if logs is not None and file in logs_in(run.nodes()) else None
    if path is None or path.is_symlink() or not path.is_file():
        raise InputError(f"the run has no log {file!r} any more", code="no_log", status=404)
    return {"file": file, "lines": list(lines_around(path, moment))}


async def _search_lines(path: Path | None, text: str, pool: WorkerPool) -> AsyncIterator[bytes]:
    if path is None or not text:
        yield b'{"end":true,"hits":0}\n'
        return
    async for found in search(path, text, pool):
        yield orjson.dumps(found) + b"\n"


def _place_in(text: str) -> tuple[int, int]:
    start, _, length = text.partition("-")
    if not (text.isascii() and start.isdecimal() and length.isdecimal() and len(text) < 40):
        raise InputError(f"a place is `<start>-<length>`, not {text!r}", code="bad_place", status=400)
    return int(start), int(length)


def _take_at_most(blocks: Iterable[bytes], size: int) -> list[bytes]:
    """Return the first of `blocks`, at least one of them, until they exceed `size` bytes."""
    taken: list[bytes] = []
    for block in blocks:
        taken.append(block)
        size -= len(block)
        if size <= 0:
            break
    return taken


def _json(content: Any) -> Response:
    return Response(dump_json(content, default=str, option=orjson.OPT_NON_STR_KEYS), media_type=_JSON)


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GymError)
    # A damaged file is no fault of the viewer.
    status = 422 if isinstance(error, ConfigError) else error.failure.http_status
    return Response(orjson.dumps(error.failure.to_wire()), status, media_type=_JSON)
