"""Small dataset files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from nemo_gym.config_types import DatasetType
from nemo_gym.datasets.preparation import SourceFile
from nemo_gym.rollouts.plan.dataset import DatasetFile


def row(question: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": question}]}, **fields}


def write(path: Path, *rows: Any) -> Path:
    path.write_bytes(b"".join((one if isinstance(one, bytes) else orjson.dumps(one)) + b"\n" for one in rows))
    return path


def source(path: Path, split: DatasetType = "train", **options: Any) -> SourceFile:
    return SourceFile(split, path.stem, DatasetFile(path, **{"agent_name": "agent", **options}))


def read(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]
