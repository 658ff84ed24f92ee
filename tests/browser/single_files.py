"""A run in one HTML file, with the page's script and style sheet inline, as an export packs it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.output.row_index import blocks_of
from nemo_gym.viewer.row_views import card_of, tokens_of
from nemo_gym.viewer.server import PAGE


def answers_of(path: Path, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the answers by path, in the format of `viewer/src/source/embedded.ts`, of a run without failures."""
    run = {
        "id": "r0",
        "title": path.stem,
        "path": path.name,
        "state": "complete",
        "rows": len(rows),
        "failures": 0,
    }
    run |= {
        "planned": len(rows),
        "started_at": None,
        "updated_at": 0,
        "files": [],
        "manifest": None,
        "metrics": None,
    }
    with path.open("rb") as file:
        blocks = b"".join(blocks_of(file))
    answers: dict[str, Any] = {
        "runs": {"runs": [run]},
        "runs/r0": run,
        "runs/r0/blocks?kind=rows": {"b64": base64.b64encode(blocks).decode()},
        "runs/r0/failures": {"groups": []},
        "runs/r0/flags": {"flags": []},
    }
    start = 0
    for line, row in zip(path.read_bytes().splitlines(keepends=True), rows, strict=True):
        place = f"{start}-{len(line)}"
        answers[f"runs/r0/rows/{place}?kind=rows"] = line.decode()
        answers[f"runs/r0/cards/{place}?kind=rows"] = card_of(row)
        tokens = tokens_of(row)
        if tokens is not None:
            answers[f"runs/r0/tokens/{place}?kind=rows"] = tokens
        start += len(line)
    return answers


def single_file(note: str, answers: Mapping[str, Any]) -> str:
    """Return the page with the answers inside. Its policy allows only the script and the style sheet that it holds."""
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    script = (PAGE / _found(r'src="\./(assets/[^"]+\.js)"', page)).read_text(encoding="utf-8")
    style = (PAGE / _found(r'href="\./(assets/[^"]+\.css)"', page)).read_text(encoding="utf-8")
    data = json.dumps({"note": note, "answers": answers}).replace("<", "\\u003c")
    policy = f"default-src 'none'; img-src data:; script-src {_digest(script)}; style-src {_digest(style)}"
    body = re.sub(r"\s*<(script|link rel=\"stylesheet\")[^>]*>(</script>)?", "", page)
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n</head>'
    end = f'<script type="application/json" id="run">{data}</script>\n<script type="module">{script}</script>\n</body>'
    return body.replace("</head>", head).replace("</body>", end)


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None
    return found[1]


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
