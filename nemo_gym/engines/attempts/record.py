"""The record of an attempt: a folder with a file for every model server process that answered its calls.

A call is two lines: its request when it begins, and its outcome before the answer goes out. So a record also has the
requests that were in flight when the attempt ended. Requests are deltas (`engines.record.deltas`), and so are the
prompt ids in replies of engines, which repeat those of earlier calls. A torn line is skipped; a call without an outcome
is one without an answer.

File systems make new files slowly while they remember many deleted ones (ext4: 60 to 300 seconds). So the folder of a
settled attempt becomes that of another one, whose first call empties its file. Lines name their attempt: those of the
earlier attempt, which a late call of it may still write, are no part of the record.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.engines.record.call import count_sampled_tokens
from nemo_gym.engines.record.deltas import apply_delta
from nemo_gym.engines.record.tape import EngineReplyKept, PartVersions, Versions
from nemo_gym.json_objects import object_in
from nemo_gym.serving.durable.lines import RecordFile

_SUFFIX = ".calls.jsonl"
_KEY = "prompt_token_ids"
_IDS = b'"%b":' % _KEY.encode()
_NEWLINES = 2
"""The most of them at the beginning of a file: one is kept when it is emptied, and one ends a torn line."""
_KEPT_PROMPTS = 4
"""Earlier prompts that a new one is compared with."""


@dataclass(slots=True)
class RecordedCall:
    """A call in a record."""

    call: str
    server: str
    dialect: str
    items: list[Any]
    fields: dict[str, Any]
    """The request: its messages, and its other fields."""
    started_at: float
    sent: str | None = None
    """The id that our client gave the call, the same when it is sent again."""
    completed_at: float | None = None
    status: int | None = None
    """The status of its answer; None for a call without one."""
    replies: list[EngineReplyKept] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    """The whole answer, if no engine was asked."""
    sampled_tokens: int = 0
    versions: Versions = (None, None)
    parts: PartVersions = ()
    replayed: str | None = None
    """The call of the earlier attempt from which it was answered."""
    compared: int = 0
    """The observations in its request that were compared with recorded ones."""
    noise: dict[str, int] = field(default_factory=dict)
    """The differences that were declared as noise, by class."""
    instructions_changed: bool = False

    @property
    def is_answered(self) -> bool:
        return self.status is not None


class AttemptWriter(RecordFile):
    """Appends the calls of one attempt in one process. Raises `OSError` if a line cannot be written whole."""

    def __init__(self, folder: str | Path, server: str, process: str, *, is_new: bool = False) -> None:
        """`server` is unique among the processes that write; `process` tells its restarts apart.

        `is_new`: the attempt is afresh.
        """
        super().__init__(folder, server, _SUFFIX, is_new=is_new)
        self._attempt = os.path.basename(folder)  # noqa: PTH119 - every attempt begins here
        self._process = process
        self._prompts: list[tuple[int, bytes, str]] = []
        """Length, digest and place of the latest prompts' ids, as text."""

    def begin(self, call: str, line: Mapping[str, Any]) -> None:
        self.append({"attempt": self._attempt, "call": call, "process": self._process, **line})

    def end(self, call: str, line: Mapping[str, Any], replies: Sequence[EngineReplyKept] = ()) -> None:
        """Append the outcome of a call, with the replies of the engine. The file is open during calls only."""
        kept = [self._pack(call, place, reply) for place, reply in enumerate(replies)]
        self.append({"call": call, **line, **({"replies": kept} if kept else {})})
        self.close()

    def note_mismatch(self, mismatch: Mapping[str, Any]) -> None:
        self.append({"attempt": self._attempt, "mismatch": mismatch})
        self.close()

    def _pack(self, call: str, place: int, reply: EngineReplyKept) -> dict[str, Any]:
        """Return a reply as it is recorded. Its body is kept as bytes: nothing is parsed or dumped again."""
        about = {"path": reply.path, "url": reply.url, "status": reply.status}
        body = reply.body
        if reply.status != 200:
            return {**about, "text": body.decode(errors="replace")}
        if b"\n" in body or b"\r" in body:
            body = orjson.dumps(orjson.loads(body))
        found = _find_ids(body)
        if found is None:
            return {**about, "body": orjson.Fragment(body)}
        start, end = found
        ids, name = body[start:end], f"{call}/{place}"
        kept, base, hashed = 0, None, hashlib.sha256()
        for length, digest, earlier in reversed(self._prompts):
            if ids[length : length + 1] not in (b",", b""):
                continue
            begins = hashlib.sha256(ids[:length])
            if begins.digest() == digest:
                kept, base, hashed = length, earlier, begins
                break
        hashed.update(ids[kept:])
        self._prompts = [*self._prompts[1 - _KEPT_PROMPTS :], (len(ids), hashed.digest(), name)]
        cut = body[: start - 1] + b"null" + body[end + 1 :]
        prompt = {"base": base, "kept": kept, "ids": ids[kept:].decode()}
        return {**about, "body": orjson.Fragment(cut), "prompt": prompt}


class AttemptRecord(NamedTuple):
    """The calls of an attempt, in the order in which they began, by all model servers."""

    calls: list[RecordedCall]
    mismatches: list[dict[str, Any]]
    damaged: int
    """The number of lines that are no JSON objects."""
    bytes: int

    def list_answered(self, server: str | None = None) -> list[RecordedCall]:
        """Return the answered calls, of one server or of all."""
        return [call for call in self.calls if call.is_answered and server in (None, call.server)]


def read_attempt(folder: Path) -> AttemptRecord:
    """Return the record in a folder; an empty one if it does not exist."""
    calls: list[RecordedCall] = []
    mismatches: list[dict[str, Any]] = []
    damaged = size = 0
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        content = path.read_bytes()
        lines = [object_in(line) for line in content.split(b"\n") if line]
        damaged, size = damaged + lines.count(None), size + len(content)
        read = [
            line for line in lines if line is not None and line.get("attempt", folder.name) == folder.name
        ]
        mismatches += [line["mismatch"] for line in read if "mismatch" in line]
        calls += _read_calls(read)
    calls.sort(key=lambda call: call.started_at)
    return AttemptRecord(calls, mismatches, damaged, size)


def is_afresh(folder: str) -> bool:
    """Return whether an attempt has neither a recorded call nor anything to replay."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - every attempt begins here
    except (FileNotFoundError, NotADirectoryError):
        return True
    begins = b'{"attempt":"%b"' % os.path.basename(folder).encode()  # noqa: PTH119
    return all(name.endswith(_SUFFIX) and not _has_head(f"{folder}/{name}", begins) for name in names)


def _has_head(path: str, begins: bytes) -> bool:
    """Return whether the first line of a file begins so."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, len(begins) + _NEWLINES).lstrip(b"\n").startswith(begins)
    finally:
        os.close(descriptor)


def _read_calls(lines: Sequence[Mapping[str, Any]]) -> Iterator[RecordedCall]:
    """Yield the calls of one file. Failed calls are left out, and those that ended with an earlier process."""
    calls: dict[str, RecordedCall] = {}
    requests: dict[str | None, tuple[list[Any], dict[str, Any]]] = {}
    prompts: dict[str, str] = {}
    processes: dict[str, str] = {}
    last = next((line["process"] for line in reversed(lines) if "process" in line), None)
    for line in lines:
        name = line.get("call")
        if name is None:
            continue
        if "request" in line:
            delta = line["request"]
            requests[name] = items, fields = apply_delta(requests.get(delta["base"]), delta)
            calls[name] = RecordedCall(
                name, line["server"], line["dialect"], items, fields, line["started_at"], line.get("sent")
            )
            processes[name] = line["process"]
        elif name in calls and "error" in line:
            del calls[name]
        elif name in calls:
            _add_outcome(calls[name], line, prompts)
    yield from (call for name, call in calls.items() if call.is_answered or processes[name] == last)


def _add_outcome(call: RecordedCall, line: Mapping[str, Any], prompts: dict[str, str]) -> None:
    call.completed_at, call.status = line["completed_at"], line["status"]
    call.answer = line.get("answer")
    answers = [call.answer, *(kept.get("body") for kept in line.get("replies", ()))]
    call.sampled_tokens = sum(count_sampled_tokens(each) for each in answers if isinstance(each, Mapping))
    began, ended = line.get("versions", (None, None))
    call.versions, call.replayed = (began, ended), line.get("replayed")
    call.parts = [(start, version) for start, version in line.get("part_versions", ())]
    call.compared, call.noise = line.get("compared", 0), line.get("noise", {})
    call.instructions_changed = line.get("instructions_changed", False)
    for place, kept in enumerate(line.get("replies", ())):
        call.replies.append(_unpack(kept, f"{call.call}/{place}", prompts))


def _unpack(kept: Mapping[str, Any], name: str, prompts: dict[str, str]) -> EngineReplyKept:
    if "text" in kept:
        return EngineReplyKept(kept["path"], kept["status"], kept["text"].encode(), kept["url"])
    body, prompt = kept["body"], kept.get("prompt")
    if prompt is not None:
        prompts[name] = prompts.get(prompt["base"] or "", "")[: prompt["kept"]] + prompt["ids"]
        _put_ids(body, orjson.Fragment(f"[{prompts[name]}]"))
    return EngineReplyKept(kept["path"], kept["status"], orjson.dumps(body), kept["url"])


def _put_ids(value: Any, ids: orjson.Fragment) -> bool:
    """Put the ids where the first null stands in their place, as in the bytes. Returns whether there is one."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        if key == _KEY and each is None:
            value[key] = ids
            return True
        if isinstance(each, dict | list) and _put_ids(each, ids):
            return True
    return False


def _find_ids(body: bytes) -> tuple[int, int] | None:
    """Return where the prompt's ids are in a reply, without their brackets; None without a list of them."""
    at = body.find(_IDS)
    if at < 0:
        return None
    start = body.find(b"[", at) + 1
    if body[at + len(_IDS) : start - 1].strip() or not start:
        return None
    end = body.find(b"]", start)
    return (start, end) if end >= start else None
