"""Recorded answers, looked up by the content that the model read.

A recording is a line `{"request": ..., "answer": ...}` of a JSONL file (`.gz` and `.zst` too): a Responses request,
and a Responses object or the answer's text. A line with `"api": "chat"` holds a chat request and a chat completion.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from nemo_gym.engines.engine_model import new_id, now
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.paths import find_file
from nemo_gym.responses import convert_chat_request, convert_chat_to_response
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.tokens.records import CARRIED_FIELDS

Recorded: TypeAlias = dict[str, Any] | str
"""A Responses object, or only its text."""

_NOT_READ = CARRIED_FIELDS | {"id", "status", "annotations", "logprobs", "encrypted_content"}
"""Fields of an item that are invisible to a model."""
_TEXT_PARTS = frozenset({"input_text", "output_text", "summary_text", "reasoning_text", "text"})


class Recordings:
    """The recorded answers of each request, returned in order and then again from the first."""

    def __init__(self, names: list[str]) -> None:
        """Read the files. Raises `ConfigError` that names the invalid line."""
        self._answers: dict[bytes, list[Recorded]] = defaultdict(list)
        self._turns: dict[bytes, itertools.count[int]] = defaultdict(itertools.count)
        for name in names:
            for place, recording in _read(name):
                try:
                    params, answer = _parsed(recording)
                except (GymError, ValueError) as error:
                    raise ConfigError(f"{place}: {error}", code="invalid_recording") from error
                self._answers[request_key(params)].append(answer)

    def __len__(self) -> int:
        return sum(map(len, self._answers.values()))

    def next_answer(self, params: Mapping[str, Any]) -> Recorded | None:
        """Return the next answer to a request; None without a recording."""
        key = request_key(params)
        answers = self._answers.get(key)
        return answers[next(self._turns[key]) % len(answers)] if answers else None


def request_key(params: Mapping[str, Any]) -> bytes:
    """Return a digest of the instructions, the items of the conversation and the names of the tools.

    Equivalent requests have the same digest.
    """
    given = params.get("input")
    items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
    if params.get("instructions"):
        items.insert(0, {"role": "system", "content": params["instructions"]})
    tools = sorted(str(tool.get("name")) for tool in params.get("tools") or () if isinstance(tool, Mapping))
    read = [[_as_read(item) for item in items], tools]
    return hashlib.blake2b(orjson.dumps(read, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()


def _as_read(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    read = {name: value for name, value in item.items() if name not in _NOT_READ and value is not None}
    if read.get("type") == "message":
        del read["type"]
    for name in ("content", "output", "summary"):
        if isinstance(read.get(name), list):
            read[name] = _joined(read[name])
    return read


def _joined(parts: list[Any]) -> Any:
    """Join parts that are all text; return other parts unchanged."""
    if all(isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS for part in parts):
        return "".join(str(part.get("text")) for part in parts)
    return parts


def _parsed(recording: Any) -> tuple[Mapping[str, Any], Recorded]:
    """Return the Responses request and the answer of a line. Raises ValueError or `GymError`."""
    request = recording.get("request") if isinstance(recording, dict) else None
    answer = recording.get("answer") if isinstance(recording, dict) else None
    if not isinstance(request, dict) or not isinstance(answer, dict | str):
        raise ValueError("a recording needs a `request` object and an `answer` (object or text)")
    if recording.get("api") == "chat":
        request = convert_chat_request(request).body
        if isinstance(answer, dict):
            return request, convert_chat_to_response(answer, request, ids=new_id, now=now()).response
    if isinstance(answer, dict) and not isinstance(answer.get("output"), list):
        raise ValueError("its `answer` is not a Responses object: it has no list `output`")
    return request, answer


def _read(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the recordings of a file, each with `file:line`."""
    path = find_file(name)
    if path is None:
        raise ConfigError(
            f"there is no recordings file at {name}",
            code="missing_file",
            param="recordings",
            remedy="Paths are relative to the folder that the command is started in, or to the gym's own.",
        )
    for number, content in read_lines(Path(path)):
        try:
            yield f"{name}:{number}", orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise ConfigError(f"{name}:{number}: not JSON: {error}", code="invalid_recording") from error
