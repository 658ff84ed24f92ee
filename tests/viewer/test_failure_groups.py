"""Failures are grouped by class and peer."""

from __future__ import annotations

from pathlib import Path

import orjson

from nemo_gym.viewer.failure_groups import group_failures


def test_groups_count_every_failure_and_keep_places_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "out_failures.jsonl"
    rows = [
        {"_ng_failure_class": name, "_ng_failure": {"peer": peer, "message": f"{peer} failed"}}
        for name, peer in [("a", "x"), ("b", "x"), ("a", "x"), ("a", "y")] + [("c", "z")] * 30
    ]
    lines = [orjson.dumps(row) + b"\n" for row in rows]
    path.write_bytes(b"".join(lines) + b"torn")
    groups = group_failures(path)
    assert [(group["failure"], group["peer"], group["count"]) for group in groups[:2]] == [
        ("c", "z", 30),
        ("a", "x", 2),
    ]
    assert sum(group["count"] for group in groups) == len(rows) + 1
    assert len(groups[0]["rows"]) == 20
    content = path.read_bytes()
    for start, length in groups[1]["rows"]:
        assert orjson.loads(content[start : start + length])["_ng_failure"]["peer"] == "x"
