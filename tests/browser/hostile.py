"""Forty strings that run a script, or load something, in a page that takes them for HTML, Markdown or an address."""

from __future__ import annotations

from typing import Any

_RUN = "alert(1)"
_AWAY = "https://evil.example"

PAYLOADS = [
    f"<script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<body onload={_RUN}>",
    f"<iframe src='javascript:{_RUN}'></iframe>",
    f"<iframe srcdoc='<script>parent.{_RUN}</script>'></iframe>",
    f"<a href='javascript:{_RUN}'>click</a>",
    f"<details open ontoggle={_RUN}>",
    f"<input autofocus onfocus={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f"<math><a xlink:href='javascript:{_RUN}'>x</a></math>",
    f"<object data='javascript:{_RUN}'>",
    f"<embed src='{_AWAY}/e'>",
    f"<link rel=stylesheet href='{_AWAY}/s.css'>",
    f"<style>@import '{_AWAY}/s.css';</style>",
    f"<base href='{_AWAY}/'>",
    f"<meta http-equiv=refresh content='0;url={_AWAY}'>",
    f"<form action='{_AWAY}'><button autofocus>go</button></form>",
    f"<img src='{_AWAY}/pixel.png'>",
    f"<audio src='{_AWAY}/a.mp3' autoplay>",
    f"![image]({_AWAY}/markdown.png)",
    f'![x](x "onerror={_RUN}")',
    f"[link](javascript:{_RUN})",
    f"[link]({_AWAY}/page)",
    f"<{_AWAY}/auto>",
    f"[ref]: javascript:{_RUN}\n[click][ref]",
    f"[a](data:text/html,<script>{_RUN}</script>)",
    f"`<img src=x onerror={_RUN}>`",
    f"```\n</pre><script>{_RUN}</script>\n```",
    f"| <img src=x onerror={_RUN}> |\n|---|\n| <svg onload={_RUN}> |",
    f"'\"><script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"</textarea></title></style><img src=x onerror={_RUN}>",
    f"<!--><img src=x onerror={_RUN}>-->",
    f"<![CDATA[><img src=x onerror={_RUN}>]]>",
    f"\u0000<script>{_RUN}</script>",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    "{{constructor.constructor('alert(1)')()}}",
    "__proto__",
]


_PANEL_KINDS = ["text", "code", "diff", "image", "table", "board", "html"]


def _panel_field(kind: str, payload: str) -> dict[str, Any]:
    texts = dict.fromkeys(("title", "text", "url", payload), payload)
    return {"kind": kind, **texts, "columns": [payload], "rows": [[payload]]}


def poisoned(payload: str, number: int) -> dict[str, Any]:
    """Return a row that has the payload in every string, also in names of fields and in addresses of images."""
    part = {"type": "output_text", "text": payload, "annotations": [payload]}
    items: list[Any] = [
        {"type": "message", "role": "assistant", "id": payload, "content": [part]},
        {"type": "message", "role": payload, "content": payload},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": payload}],
            "encrypted_content": payload,
        },
        {"type": "function_call", "name": payload, "arguments": payload, "call_id": payload},
        {"type": "function_call_output", "output": payload, "call_id": payload},
        {
            "type": "mcp_call",
            "server_label": payload,
            "name": payload,
            "arguments": payload,
            "output": payload,
        },
        {"type": "code_interpreter_call", "code": payload, "outputs": [payload]},
        {"type": "image_generation_call", "result": payload},
        {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": payload}]},
        {"type": "message", "role": "user", "content": [{"type": payload, payload: payload}]},
        {"type": payload, payload: payload},
        payload,
    ]
    return {
        "_ng_task_index": number,
        "_ng_rollout_index": 0,
        "_ng_attempt_index": 0,
        "responses_create_params": {
            "instructions": payload,
            "input": payload,
            "tools": [{"name": payload}],
            payload: 1,
        },
        "agent_ref": {"type": payload, "name": payload},
        "reward": 0.5,
        "judge": payload,
        "panel": {"title": payload, "fields": [_panel_field(kind, payload) for kind in _PANEL_KINDS]},
        payload: number,
        "response": {"output": items, "usage": {payload: 1}},
        "_ng_outcome": payload,
        "_ng_end_reason": payload,
        "_ng_timing": {payload: 1.0, "total": 2.0},
    }
