"""`gym view` shows the tokens that a real vLLM gave, with vLLM's own texts."""

from __future__ import annotations

import base64
import json
import sys
import urllib.request
from collections.abc import Iterator
from http.cookiejar import CookieJar
from itertools import groupby
from pathlib import Path
from typing import Any

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.browser.conftest import serving
from tests.vllm.conftest import MODEL
from tests.vllm.test_vllm import TASKS, collect, write_tasks


def shown_tokens(address: str, rows: Path) -> Iterator[Any]:
    """Yield the server's answer about the tokens of each row."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    browser.open(address).close()
    start = 0
    for line in rows.read_bytes().splitlines(keepends=True):
        url = f"{address.split('?')[0]}api/runs/r0/tokens/{start}-{len(line)}"
        with browser.open(url) as answer:
            yield json.load(answer)
        start += len(line)


def detokenized(vllm_url: str, ids: list[int]) -> str:
    body = json.dumps({"model": MODEL, "tokens": ids}).encode()
    url = vllm_url.removesuffix("/v1") + "/detokenize"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["prompt"])


def known_runs(segment: Any) -> Iterator[tuple[list[int], str]]:
    """Yield the ids and the joined texts of neighbouring positions whose texts are known."""
    texts = {int(token): bytes_of(text) for token, text in segment["texts"].items()}
    for is_known, run in groupby(segment["ids"], key=lambda token: token in texts):
        ids = list(run)
        if is_known:
            yield ids, b"".join(texts[token] for token in ids).decode()


def bytes_of(text: str | dict[str, str]) -> bytes:
    return text.encode() if isinstance(text, str) else base64.b64decode(text["b64"])


def test_ids_logprobs_masks_and_texts_are_those_of_vllm(vllm_url: str, tmp_path: Path) -> None:
    tasks = write_tasks(tmp_path / "tasks.jsonl", tool_choice="auto", max_output_tokens=48)
    output = tmp_path / "out" / "rollouts.jsonl"
    options = ("return_token_id_information=true", "token_fields=contract")
    code, rows, printed = collect(vllm_url, tasks, output, *options)
    assert code == 0, printed
    with serving([output]) as address:
        shown = list(shown_tokens(address, output))
    assert len(shown) == len(rows) == TASKS
    positions = known = 0
    for row, answer in zip(rows, shown, strict=True):
        segments = build_segments(read_calls(row))
        assert [each["ids"] for each in answer["segments"]] == [segment.token_ids for segment in segments]
        assert [each["mask"] for each in answer["segments"]] == [segment.loss_mask for segment in segments]
        assert [each["logprobs"] for each in answer["segments"]] == [segment.logprobs for segment in segments]
        sampled = [item["generation_token_ids"] for item in row["response"]["output"]
                   if "generation_token_ids" in item]  # fmt: skip
        first = answer["segments"][0]
        trained = [token for token, bit in zip(first["ids"], first["mask"], strict=True) if bit]
        assert trained == [token for ids in sampled for token in ids]
        for segment in answer["segments"]:
            positions += len(segment["ids"])
            for ids, text in known_runs(segment):
                known += len(ids)
                assert text == detokenized(vllm_url, ids)
    assert known > positions / 2
    sys.stdout.write(f"{positions} positions shown, {known} of them with the text of vLLM\n")
