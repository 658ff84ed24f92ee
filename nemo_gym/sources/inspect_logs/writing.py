"""A scored row as a sample of a log, and the rest of a log."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import identity_in
from nemo_gym.rows.parts import read_response, read_usage
from nemo_gym.rows.verdict import read_reward
from nemo_gym.sources.atif.patches import make_patch
from nemo_gym.sources.atif.trajectory import OUR_DATA
from nemo_gym.sources.atif.writing import write_trajectory
from nemo_gym.sources.inspect_logs.media import InlineMedia
from nemo_gym.sources.inspect_logs.messages import StepReader, split_given, write_messages

SCORER: Final = "reward"
_CREATED: Final = "1970-01-01T00:00:00+00:00"
"""A log needs a time. Equal rows make equal files, so it is none of theirs."""


@dataclass(slots=True)
class WrittenSample:
    """A sample, and what only its `metadata` holds."""

    content: dict[str, Any]
    kept_aside: Counter[str]
    """Kind → how many, as those of a trajectory, and `tokens`, the calls with ids: Inspect has no field for them."""


def write_sample(row: AnyRow) -> WrittenSample:
    """Return a row as a sample."""
    media = InlineMedia()
    written = write_trajectory(row, media)
    trajectory = written.content
    steps = trajectory["steps"]
    groups = [write_messages(step) for step in steps]
    messages = [message for group in groups for message in group]
    rest = {name: value for name, value in trajectory.items() if name != "steps"}
    identity = identity_in(row)
    model = str(read_response(row).get("model") or "unknown")
    usage = _write_usage(row)
    given = [message for group in groups[: split_given(steps)] for message in group]
    answers = [message for message in messages if message["role"] == "assistant"]
    content = {
        "id": identity.task if identity is not None else trajectory["trajectory_id"],
        "epoch": 1 if identity is None else identity.repeat + 1,
        "input": given,
        "target": "",
        "messages": messages,
        "output": {
            "model": model,
            "choices": [{"message": answer, "stop_reason": "stop"} for answer in answers[-1:]],
            **({"usage": usage} if usage else {}),
        },
        "scores": {SCORER: {"value": read_reward(row)}},
        "metadata": {
            OUR_DATA: {"trajectory": rest, "steps": make_patch(StepReader(media).read(messages), steps)}
        },
        **({"model_usage": {model: usage}} if usage else {}),
    }
    kept = Counter(written.kept_aside)
    if tokens := sum("completion_token_ids" in (step.get("metrics") or {}) for step in steps):
        kept["tokens"] = tokens
    return WrittenSample(content, kept)


def _write_usage(row: AnyRow) -> dict[str, int]:
    usage = read_usage(row)
    named = {name: usage.get(name) for name in ("input_tokens", "output_tokens", "total_tokens")}
    return {name: value for name, value in named.items() if isinstance(value, int)}


def build_header() -> dict[str, Any]:
    """Return the fields of a log beside its samples."""
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "created": _CREATED,
            "task": OUR_DATA,
            "dataset": {},
            "model": "unknown",
            "config": {},
        },
        "plan": {},
        "stats": {},
    }
