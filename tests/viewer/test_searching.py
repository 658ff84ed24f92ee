"""Search finds the rows that hold a text, in pieces of any size."""

from __future__ import annotations

import tempfile
from pathlib import Path

import orjson
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.viewer.searching import search_piece

TEXTS = st.text(alphabet='abAB"\\\n\u00e9\u4e2d ', max_size=12)


@given(st.lists(TEXTS, max_size=8), TEXTS.filter(bool), st.booleans())
def test_hits_are_the_rows_that_hold_the_text(texts: list[str], wanted: str, is_escaped: bool) -> None:
    lines = [orjson.dumps({"t": text}) for text in texts]
    if is_escaped:
        lines = [
            line.decode().encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00") for line in lines
        ]
    content = b"".join(line + b"\n" for line in lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        path.write_bytes(content)
        hits = search_piece(path, 0, len(content), wanted)
    found = [content[hit["start"] : hit["start"] + hit["length"]].rstrip(b"\n") for hit in hits]
    in_json = orjson.dumps(wanted).decode()[1:-1].lower()
    escaped = in_json.encode("ascii", "backslashreplace").replace(b"\\x", b"\\u00")
    forms = (in_json.encode(), escaped)
    assert found == [line for line in lines if any(form in line.lower() for form in forms)]


def test_an_excerpt_shows_where_the_text_is(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b'{"a":1}\n' + b'{"t":"' + b"x" * 500 + b"NEEDLE" + b"y" * 500 + b'"}\n')
    (hit,) = search_piece(path, 0, path.stat().st_size, "needle")
    assert hit["excerpt"][hit["at"] :].startswith("NEEDLE")
    assert len(hit["excerpt"]) < 200
    assert (hit["start"], hit["start"] + hit["length"]) == (8, path.stat().st_size)
