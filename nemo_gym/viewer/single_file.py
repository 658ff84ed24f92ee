"""The page with its answers in one HTML file, which needs no server and sends no request."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final

import orjson

from nemo_gym.viewer.server import PAGE

_SCRIPT: Final = re.compile(r'\s*<script[^>]*src="\./(assets/[^"]+\.js)"></script>')
_STYLE: Final = re.compile(r'\s*<link rel="stylesheet"[^>]*href="\./(assets/[^"]+\.css)"[^>]*>')


def single_file(
    note: str, answers: Mapping[str, Any], *, base: str | None = None, has_formulas: bool = False
) -> str:
    """Return the page with answers by path, in the format of `viewer/src/source/embedded.ts`.

    `note` says what the file holds. Its policy allows only its own script and style sheet. `base` is the address that
    its links are relative to, by default its own. With `has_formulas` it holds the program that sets formulas.
    """
    page = (PAGE / "index.html").read_text(encoding="utf-8")
    script, style = _asset(_SCRIPT, page), _asset(_STYLE, page)
    # A "<" could end the element.
    data = orjson.dumps({"note": note, "answers": answers}, default=str, option=orjson.OPT_NON_STR_KEYS)
    text = data.decode().replace("<", "\\u003c")
    setter = next((PAGE / "assets").glob("katex.*.js")).read_text(encoding="utf-8") if has_formulas else ""
    scripts = " ".join(map(_digest, filter(None, (script, setter))))
    policy = f"default-src 'none'; img-src data:; script-src {scripts}; style-src {_digest(style)}"
    policy += "; form-action 'none'" + ("" if base else "; base-uri 'none'")
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    head += (f'<base href="{escape(base)}">\n' if base else "") + f"<style>{style}</style>\n</head>"
    end = f'<script type="application/json" id="run">{text}</script>\n'
    # The page runs it when the first formula is shown.
    end += f'<script type="text/plain" id="formulas">{setter}</script>\n' if setter else ""
    end += f'<script type="module">{script}</script>\n</body>'
    bare = _STYLE.sub("", _SCRIPT.sub("", page))
    return bare.replace("</head>", head).replace("</body>", end)


def _asset(link: re.Pattern[str], page: str) -> str:
    found = link.search(page)
    assert found is not None, "the built page links one script and one style sheet"
    return (PAGE / found[1]).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
