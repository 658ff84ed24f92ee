"""Text search over the rows of a file, in workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path
from typing import Any, Final

from nemo_gym.processes.workers import WorkerPool
from nemo_gym.viewer.indexing import work_in_pieces

_PIECE_TIMEOUT_S: Final = 600.0
_EXCERPT_BYTES: Final = 80


async def search(path: Path, text: str, pool: WorkerPool) -> AsyncIterator[dict[str, Any]]:
    """Yield each row that holds `text` in any case, then how much was read, and at the end the number of hits.

    Only letters of ASCII match in any case.
    """
    size, hits = (await asyncio.to_thread(path.stat)).st_size, 0

    async def find(start: int, end: int) -> list[dict[str, Any]]:
        return await pool.run(search_piece, path, start, end, text, timeout_s=_PIECE_TIMEOUT_S)

    async for scanned, found in work_in_pieces(path, 0, size, find, pool.size):
        for hit in found:
            hits += 1
            yield hit
        yield {"scanned": scanned, "of": size}
    yield {"end": True, "hits": hits}


def search_piece(path: Path, start: int, end: int, text: str) -> list[dict[str, Any]]:
    """Return the hits in the lines from `start` to `end`. Runs in a worker."""
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(end - start)
    return list(_hits(content, start, list_spellings(text)))


def list_spellings(text: str) -> set[bytes]:
    """Return the forms that a text has in JSON, in lower case: as it is, and with characters beyond ASCII escaped."""
    return {json.dumps(text, ensure_ascii=escaped)[1:-1].encode().lower() for escaped in (False, True)}


def _hits(content: bytes, start: int, forms: Collection[bytes]) -> Iterator[dict[str, Any]]:
    lowered, at = content.lower(), 0
    places = {form: lowered.find(form) for form in forms}
    while places := {form: place for form, place in places.items() if place >= 0}:
        form = min(places, key=places.__getitem__)
        place = places[form]
        begin = content.rfind(b"\n", 0, place) + 1
        at = content.find(b"\n", place) + 1 or len(content)
        first, last = max(begin, place - _EXCERPT_BYTES), min(at, place + len(form) + _EXCERPT_BYTES)
        before = content[first:place].decode(errors="replace")
        yield {
            "start": start + begin,
            "length": at - begin,
            "excerpt": before + content[place:last].decode(errors="replace").rstrip("\n"),
            "at": len(before),
        }
        places = {form: place if place >= at else lowered.find(form, at) for form, place in places.items()}
