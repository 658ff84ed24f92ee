"""Small logs of Inspect, and archives whose members are compressed as Inspect compresses them."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import zstandard

_ZSTANDARD = 93


def build_sample(**fields: Any) -> dict[str, Any]:
    messages = [
        {"role": "user", "content": "What is 2 + 2?", "source": "input"},
        {"role": "assistant", "content": "attachment://long", "source": "generate"},
    ]
    return {
        "id": "sum",
        "epoch": 1,
        "input": "What is 2 + 2?",
        "target": "4",
        "messages": messages,
        "scores": {"match": {"value": "C", "answer": "4"}},
        "attachments": {"long": "It is 4."},
        "output": {"model": "mock"},
        "model_usage": {"mock": {"input_tokens": 5, "output_tokens": 3}},
        **fields,
    }


def build_log(*samples: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 2,
        "status": "success",
        "eval": {"task": "sums", "task_version": 3, "model": "mock/mock"},
        "samples": list(samples),
    }


def write_json(path: Path, *samples: dict[str, Any]) -> Path:
    path.write_text(json.dumps(build_log(*samples)))
    return path


def write_eval(path: Path, *samples: dict[str, Any], header: str = "header.json") -> Path:
    whole = build_log()
    members = {header: {name: value for name, value in whole.items() if name != "samples"}}
    members |= {f"samples/{each['id']}_epoch_{each['epoch']}.json": each for each in samples}
    path.write_bytes(pack({name: json.dumps(each).encode() for name, each in members.items()}))
    return path


def pack(members: dict[str, bytes]) -> bytes:
    """Return a zip archive with zstandard, which Python's own module cannot write before 3.14."""
    body, directory = b"", b""
    for name, content in members.items():
        compressed = zstandard.compress(content)
        sizes = (zlib.crc32(content), len(compressed), len(content), len(name), 0)
        common = struct.pack("<HHHHH3I2H", 20, 0, _ZSTANDARD, 0, 33, *sizes)
        central = struct.pack("<HHHII", 0, 0, 0, 0, len(body))
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + common + central + name.encode()
        body += b"PK\x03\x04" + common + name.encode() + compressed
    end = struct.pack("<4H2IH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end
