"""Panels of environments are checked where they are made."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.serving.panel import BoardField, ImageField, Panel, TableField, TextField

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def test_every_kind_survives_json() -> None:
    panel = Panel(
        title="The end",
        fields=[
            TextField(text="words"),
            TextField(kind="diff", text="-a\n+b"),
            ImageField(url=PIXEL),
            TableField(columns=["a", "b"], rows=[["x", 1], [None, True]]),
            BoardField(rows=[["A", "K"], ["9"]]),
        ],
    )
    assert Panel.model_validate_json(panel.model_dump_json()) == panel
    assert [field["kind"] for field in panel.model_dump()["fields"]] == [
        *("text", "diff", "image", "table", "board")
    ]


@pytest.mark.parametrize(
    "field",
    [
        {"kind": "html", "text": "<b>"},
        {"kind": "text"},
        {"kind": "text", "text": "x", "color": "red"},
        {"kind": "image", "url": "https://example.com/i.png"},
        {"kind": "image", "url": "data:image/svg+xml;base64,PHN2Zz4="},
        {"kind": "table", "rows": [["x"]]},
        {"kind": "table", "columns": ["a"], "rows": [[{"deep": 1}]]},
        {"kind": "board", "rows": ["AK"]},
    ],
)
def test_other_content_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Panel.model_validate({"fields": [field]})


def test_a_panel_is_small() -> None:
    with pytest.raises(ValidationError):
        Panel(fields=[TextField(text="x")] * 51)
