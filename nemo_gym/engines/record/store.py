"""The calls that rollouts made of model servers, in one folder (`model_call_capture_dir`).

`CaptureStore` returns them with whole requests, wherever they were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, model_validator

from nemo_gym.config.current import OBSERVABILITY_ENABLED_KEY_NAME
from nemo_gym.engines.record.deltas import apply_delta
from nemo_gym.engines.record.files import RecordLines, append_line, read_record
from nemo_gym.failures import InputError
from nemo_gym.json_objects import object_in
from nemo_gym.responses.turns import ITEMS_OF_API
from nemo_gym.serving.durability import CAPTURE_DIR_KEY

__all__ = ["CAPTURE_DIR_KEY"]


class ModelCallCaptureConfig(BaseModel):
    """The keys of the global configuration that enable the capture."""

    observability_enabled: bool = False
    model_call_capture_dir: Path | None = None

    @model_validator(mode="after")
    def _has_folder(self) -> ModelCallCaptureConfig:
        if self.observability_enabled and self.model_call_capture_dir is None:
            raise ValueError(
                f"{OBSERVABILITY_ENABLED_KEY_NAME} needs {CAPTURE_DIR_KEY}, the folder of the captured calls"
            )
        return self


def make_capture_store(config: ModelCallCaptureConfig) -> CaptureStore | None:
    """Return the store, or None if the capture is not enabled."""
    folder = config.model_call_capture_dir
    return CaptureStore(folder) if config.observability_enabled and folder is not None else None


def observability_enabled_from_config(global_config_dict: Mapping[str, Any]) -> bool:
    """Return whether the configuration enables the capture."""
    return bool(global_config_dict.get(OBSERVABILITY_ENABLED_KEY_NAME))


class CaptureStore:
    """The folder of the calls of all rollouts.

    An opened rollout has a folder with its record, whose requests are deltas. The calls of other rollouts, and refused
    ones, are in a file of the rollout, with whole requests, if observability is enabled.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def path_for(self, rollout_id: str) -> Path:
        """Return the file of a rollout. Raises `InputError` for an id that is no file name."""
        if not rollout_id or rollout_id.startswith(".") or "/" in rollout_id or "\0" in rollout_id:
            raise InputError(
                f"the rollout id {rollout_id!r} cannot be a file name", code="invalid_rollout_id"
            )
        return self.root / f"{rollout_id}.jsonl"

    def record(self, rollout_id: str, exchange: Mapping[str, Any]) -> None:
        """Append one call to the rollout's file and flush it to the disk. Processes and threads may share a file."""
        path = self.path_for(rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        append_line(path, exchange, is_shared=True)

    def read(self, rollout_id: str) -> list[dict[str, Any]]:
        """Return the calls of a rollout, in order. Raises `ValueError` for a damaged line."""
        found, damaged = self.read_available(rollout_id)
        if damaged:
            raise ValueError(f"{damaged} lines of {self.root / rollout_id} are damaged")
        return [exchange for _, exchange in found]

    def read_available(self, rollout_id: str) -> tuple[list[tuple[int, dict[str, Any]]], int]:
        """Return the valid calls with their line numbers from 0, and the number of damaged lines."""
        path = self.path_for(rollout_id)
        lines = [object_in(line) for line in path.read_bytes().splitlines()] if path.is_file() else []
        record = exchanges_in(self.root / rollout_id)
        if record.lines:
            known = [*filter(None, lines), *record.lines]
            in_order = sorted(known, key=lambda line: line.get("completed_at", 0.0))
            return list(enumerate(in_order)), lines.count(None) + record.damaged
        found = [(number, line) for number, line in enumerate(lines) if line is not None]
        return found, lines.count(None) + record.damaged


def exchanges_in(folder: Path) -> RecordLines:
    """Return the calls of a record with their whole requests, as `CaptureStore` returns them."""
    record, exchanges = read_record(folder), []
    requests: dict[str | None, tuple[list[Any], dict[str, Any]]] = {}
    for line in record.lines:
        delta = line["request"]
        items, fields = requests[line["model_call_id"]] = apply_delta(requests.get(delta["base"]), delta)
        latency_ms = 1e3 * (line["completed_at"] - line["started_at"])
        request = {ITEMS_OF_API[line["dialect"]]: items, **fields}
        model_ref = {"type": "responses_api_models", "name": line["server"]}
        exchanges.append({**line, "request": request, "latency_ms": latency_ms, "model_ref": model_ref})
    return RecordLines(exchanges, record.damaged)
