from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.engines.attempts.record import AttemptWriter, read_attempt
from nemo_gym.engines.record.deltas import RequestIndex, RequestParts
from nemo_gym.engines.record.tape import EngineReplyKept

TURNS = [
    [{"role": "user", "content": "go"}],
    [{"role": "user", "content": "go"}, {"role": "assistant", "content": "é1"}],
    [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "é1"},
        {"role": "user", "content": "2"},
    ],
]
PROMPTS = [[1, 2], [1, 2, 3, 14, 5], [1, 2, 3, 14, 5, 6]]


def build_reply(prompt: list[int] | None, **more: Any) -> EngineReplyKept:
    ids = {} if prompt is None else {"prompt_token_ids": prompt}
    body = orjson.dumps({"choices": [{"message": {"content": "é"}, "token_ids": [7]}], **ids, **more})
    return EngineReplyKept("/chat/completions", 200, body, "http://engine/v1")


def write_calls(
    folder: Path, process: str = "one", replies: list[EngineReplyKept] | None = None
) -> list[int]:
    """Write three calls. Returns the size of the file after each line."""
    writer, index = AttemptWriter(folder, "policy.0", process), RequestIndex()
    sizes = []
    replies = replies or [build_reply(prompt) for prompt in PROMPTS]
    for number, (messages, reply) in enumerate(zip(TURNS, replies, strict=True)):
        parts, call = RequestParts.from_body("chat", {"model": "m", "messages": messages}), f"call_{number}"
        line = {"server": "policy", "dialect": "chat", "sent": f"s{number}", "started_at": float(number)}
        writer.begin(call, {**line, "request": index.build_delta(parts)})
        index.keep(call, parts.digests)
        sizes.append(writer.path.stat().st_size)
        writer.end(
            call,
            {"completed_at": number + 0.5, "status": 200, "sampled_tokens": 1, "versions": (3, None)},
            [reply],
        )
        sizes.append(writer.path.stat().st_size)
    return sizes


def test_a_record_has_the_whole_requests_and_the_replies_as_they_came(tmp_path: Path) -> None:
    write_calls(tmp_path / "0.0.a0")
    record = read_attempt(tmp_path / "0.0.a0")
    assert [call.items for call in record.calls] == TURNS
    assert [call.fields for call in record.calls] == [{"model": "m"}] * 3
    for call, prompt in zip(record.calls, PROMPTS, strict=True):
        (reply,) = call.replies
        assert orjson.loads(reply.body) == orjson.loads(build_reply(prompt).body)
        assert call.versions == (3, None)
    assert (record.damaged, record.mismatches) == (0, [])
    assert record.bytes == sum(path.stat().st_size for path in (tmp_path / "0.0.a0").iterdir())


def test_the_ids_of_a_prompt_are_kept_once(tmp_path: Path) -> None:
    long = list(range(100_000, 104_000))
    prompts = [long[:2000], long[:3000], long]
    write_calls(tmp_path / "a", replies=[build_reply(prompt) for prompt in prompts])
    assert read_attempt(tmp_path / "a").bytes < 7 * len(long) + 3000
    read = [
        orjson.loads(call.replies[0].body)["prompt_token_ids"] for call in read_attempt(tmp_path / "a").calls
    ]
    assert read == prompts


@pytest.mark.parametrize(
    "reply",
    [
        build_reply(None),
        build_reply([]),
        build_reply(None, prompt_token_ids=None),
        EngineReplyKept("/x", 200, b'{\n "prompt_token_ids": [1,\n 2]\n}', "u"),
        EngineReplyKept("/x", 200, b'{"choices": [{"prompt_token_ids": [1, 2], "x": "]"}]}', "u"),
        EngineReplyKept("/x", 200, b'{"a": "\\"prompt_token_ids\\": [9]", "prompt_token_ids": [1]}', "u"),
        EngineReplyKept("/x", 400, b"the prompt is too long\n", "u"),
    ],
)
def test_odd_replies_are_read_as_they_were(tmp_path: Path, reply: EngineReplyKept) -> None:
    write_calls(tmp_path / "a", replies=[reply, build_reply([1, 2]), reply])
    for call in (read_attempt(tmp_path / "a").calls[place] for place in (0, 2)):
        read = call.replies[0]
        assert read._replace(body=b"") == reply._replace(body=b"")
        if reply.status == 200:
            assert orjson.loads(read.body) == orjson.loads(reply.body)
        else:
            assert read.body == reply.body


def test_a_tail_that_is_torn_at_any_byte_costs_its_own_line_only(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    sizes = write_calls(folder)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        record = read_attempt(folder)
        # A line is whole without its newline, too.
        lines = sum(size >= end - 1 for end in sizes)
        assert (len(record.calls), len(record.list_answered())) == ((lines + 1) // 2, lines // 2), size


def test_a_process_that_begins_later_writes_on_after_a_torn_line(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    sizes = write_calls(folder)
    (path,) = folder.iterdir()
    for size in range(sizes[1], sizes[2]):
        path.write_bytes(path.read_bytes()[:size]) if size == sizes[1] else None
        whole = path.read_bytes()[: sizes[1]]
        path.write_bytes(whole + b'{"call": "torn'[: size - sizes[1]])
        AttemptWriter(folder, "policy.0", "two").note_mismatch({"text": "no"})
        assert read_attempt(folder).mismatches == [{"text": "no"}]
        assert len(read_attempt(folder).calls) == 1


def test_a_call_in_flight_counts_only_if_its_process_was_the_last(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    sizes = write_calls(folder)
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[: sizes[2]])
    assert [call.is_answered for call in read_attempt(folder).calls] == [True, False]
    line = {"server": "policy", "dialect": "chat", "sent": "again", "started_at": 9.0}
    parts = RequestParts.from_body("chat", {"model": "m", "messages": TURNS[1]})
    AttemptWriter(folder, "policy.0", "two").begin(
        "later", {**line, "request": RequestIndex().build_delta(parts)}
    )
    assert [call.call for call in read_attempt(folder).calls] == ["call_0", "later"]


def test_a_failed_call_is_no_call(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    sizes = write_calls(folder)
    (path,) = folder.iterdir()
    path.write_bytes(path.read_bytes()[: sizes[2]])
    AttemptWriter(folder, "policy.0", "one").end("call_1", {"error": "engine_busy"})
    assert [call.call for call in read_attempt(folder).calls] == ["call_0"]


def test_a_record_is_private_and_one_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    write_calls(tmp_path / "a")
    (path,) = (tmp_path / "a").iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
    assert read_attempt(tmp_path / "none") == ([], [], 0, 0)
