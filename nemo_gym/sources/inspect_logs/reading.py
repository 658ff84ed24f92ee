"""The samples of a log as trajectories.

A log is JSON, or a zip archive (`.eval`) whose members are compressed with zstandard. Python's `zipfile` reads these
from 3.14 on, so that here it finds the members alone.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import member, parse_json
from nemo_gym.sources.atif.patches import apply_patch
from nemo_gym.sources.atif.trajectory import OUR_DATA
from nemo_gym.sources.foreign.host.score_values import read_number
from nemo_gym.sources.inspect_logs.media import InlineMedia
from nemo_gym.sources.inspect_logs.messages import StepReader

_ZSTANDARD = 93
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_ATTACHMENT = "attachment://"
_MOST_BYTES = 1 << 30
_READ = frozenset(
    {
        *("id", "epoch", "input", "messages", "output", "scores", "metadata", "attachments", "model_usage"),
        *(
            "role_usage",
            "uuid",
            "target",
            "error",
            "started_at",
            "completed_at",
            "total_time",
            "working_time",
        ),
        *("turn_count", "total_turns", "events_data"),
    }
)
"""The fields of a sample that its row has a place for, or that describe the others."""


@dataclass(slots=True)
class LoggedSample:
    """A sample as a trajectory, and the fields that this has no place for."""

    name: str
    trajectory: dict[str, Any]
    lost: Counter[str] = field(default_factory=Counter)


def is_log(path: Path) -> bool:
    """Return whether a path is a log, by its name and its first bytes."""
    if not path.is_file() or path.suffix not in (".eval", ".json"):
        return False
    if path.suffix == ".eval":
        return zipfile.is_zipfile(path)
    try:
        whole = _load(path.read_bytes())
    except ValueError:
        return False
    return isinstance(member(whole, "eval", "task"), str) and isinstance(member(whole, "status"), str)


def read_samples(path: Path) -> Iterator[LoggedSample]:
    """Yield the samples of a log that have no error. Raises ConfigError for a log that cannot be read."""
    media = InlineMedia()
    for header, sample in _read_archive(path) if path.suffix == ".eval" else _read_document(path):
        sample = _resolve(sample, sample.get("attachments") or {})
        name = f"sample {sample.get('id')}, epoch {sample.get('epoch')}"
        reader = StepReader(media)
        steps = reader.read(sample.get("messages") or ())
        ours = member(sample, "metadata", OUR_DATA)
        if isinstance(ours, Mapping):
            trajectory = _restore(ours, steps, f"{path}: {name}")
            yield LoggedSample(name, trajectory)
        elif sample.get("error"):
            yield LoggedSample(name, {}, Counter(["samples with an error"]))
        else:
            trajectory = _build_trajectory(header, sample, steps)
            yield LoggedSample(name, trajectory, reader.lost + Counter(_list_lost(sample)))


def _restore(ours: Mapping[str, Any], steps: list[Any], place: str) -> dict[str, Any]:
    try:
        return {**ours["trajectory"], "steps": apply_patch(steps, ours.get("steps"))}
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"{place} has data of this gym that cannot be read: {error!r}", code="invalid_trajectory"
        ) from error


def _build_trajectory(
    header: Mapping[str, Any], sample: Mapping[str, Any], steps: list[dict[str, Any]]
) -> dict[str, Any]:
    agent: dict[str, Any] = {
        "name": str(member(header, "eval", "task")),
        "version": str(member(header, "eval", "task_version") or 0),
        "model_name": str(member(sample, "output", "model") or member(header, "eval", "model")),
    }
    if tools := _find_tools(sample):
        agent["tool_definitions"] = tools
    values = [score.get("value") for score in (sample.get("scores") or {}).values()]
    reward = read_number(values[0]) if len(values) == 1 else None
    usages = [*(sample.get("model_usage") or {}).values()][:1]
    totals = (
        {
            "total_prompt_tokens": member(usages[0], "input_tokens"),
            "total_completion_tokens": member(usages[0], "output_tokens"),
        }
        if usages
        else None
    )
    return {
        "schema_version": "ATIF-v1.8",
        "trajectory_id": str(sample.get("id")),  # its epochs are attempts of one task
        "agent": agent,
        "steps": steps,
        **({"final_metrics": totals} if totals else {}),
        **({"extra": {"reward": reward}} if reward is not None else {}),
    }


def _find_tools(sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the tools of the first model call that had some."""
    for event in sample.get("events") or ():
        if event.get("event") == "model" and event.get("tools"):
            names = ("name", "description", "parameters")
            functions = [{name: tool.get(name) for name in names} for tool in event["tools"]]
            return [{"type": "function", "function": function} for function in functions]
    return []


def _list_lost(sample: Mapping[str, Any]) -> Iterator[str]:
    yield from (name for name, value in sample.items() if value and name not in _READ)
    yield from (f"metadata.{name}" for name in sample.get("metadata") or {})
    scores = sample.get("scores") or {}
    if len(scores) > 1:
        yield from (f"scores.{name}" for name in scores)
    for name, score in scores.items():
        if len(scores) == 1 and read_number(score.get("value")) is None:
            yield f"scores.{name}"
        yield from (f"scores.{part}" for part in ("answer", "explanation", "metadata") if score.get(part))


def _resolve(value: Any, attachments: Mapping[str, str]) -> Any:
    """Return a value with the texts in the place of the references to them."""
    if isinstance(value, dict):
        return {
            key: each if key == "attachments" else _resolve(each, attachments) for key, each in value.items()
        }
    if isinstance(value, list):
        return [_resolve(each, attachments) for each in value]
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    return value


def _read_document(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    whole = _parse(path.read_bytes(), str(path))
    for sample in whole.get("samples") or ():
        yield whole, sample


def _read_archive(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            names = archive.namelist()
            started = [name for name in ("header.json", "_journal/start.json") if name in names]
            if not started:
                raise _build_error(path, "it has neither header.json nor _journal/start.json")
            header = _parse(_read_member(file, archive.getinfo(started[0])), f"{path}: {started[0]}")
            for name in sorted(name for name in names if name.startswith("samples/")):
                yield header, _parse(_read_member(file, archive.getinfo(name)), f"{path}: {name}")
    except (zipfile.BadZipFile, zstandard.ZstdError, struct.error) as error:
        raise _build_error(path, str(error)) from error


def _read_member(file: BinaryIO, about: zipfile.ZipInfo) -> bytes:
    if about.compress_type != _ZSTANDARD:
        with zipfile.ZipFile(file) as archive, archive.open(about) as member_file:
            return member_file.read()
    file.seek(about.header_offset)
    *_, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    file.seek(name_bytes + extra_bytes, 1)
    compressed = file.read(about.compress_size)
    if about.file_size > _MOST_BYTES:
        raise zstandard.ZstdError(f"{about.filename} has more than {_MOST_BYTES >> 20} MiB")
    return zstandard.ZstdDecompressor().decompressobj().decompress(compressed)


def _load(content: bytes) -> Any:
    """Return JSON in which numbers may be NaN, as Inspect writes metrics. Raises ValueError."""
    try:
        return parse_json(content)
    except orjson.JSONDecodeError:
        return json.loads(content)


def _parse(content: bytes, place: str) -> Any:
    try:
        whole = _load(content)
    except ValueError as error:
        raise ConfigError(f"{place} is no JSON: {error}", code="invalid_trajectory") from error
    if not isinstance(whole, dict):
        raise ConfigError(f"{place} is no object", code="invalid_trajectory")
    return whole


def _build_error(path: Path, told: str) -> ConfigError:
    return ConfigError(f"{path} is no log of Inspect: {told}", code="invalid_trajectory")
