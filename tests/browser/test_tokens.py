"""The token view shows every position as trainers read it, and every reason."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.linkage import Ledger
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, TokenForm
from nemo_gym.tokens.segments import Segment, build_segments
from tests.browser.conftest import serving
from tests.browser.rows import message, row_of, sampled, write_run
from tests.browser.visits import Visit
from tests.tokens.captures import captured

ROWS = 20


def recorded(task: int, records: Iterable[CallRecord]) -> dict[str, Any]:
    items = [message("x", **{RECORD_FIELD: record.to_wire(TokenForm.PACKED)}) for record in records]
    return row_of(task, 0, items)


def random_calls(seed: int) -> list[CallRecord]:
    """Calls that extend the last one, keep a part of it, or begin anew; some are masked or under a grammar."""
    choose, ledger = random.Random(seed), Ledger()
    records, ids = list[CallRecord](), list[int]()
    for _ in range(choose.randint(1, 5)):
        if choose.random() < 0.15:
            records.append(CallRecord(call=ledger.add_masked(), masked=MaskReason.SHORT_LOGPROBS))
            continue
        kept = choose.choice((len(ids), len(ids), len(ids) // 2, 0))
        prompt = ids[:kept] + [choose.randrange(5000) for _ in range(choose.randint(1, 12))]
        capture = captured(prompt, [choose.randrange(5000) for _ in range(choose.randint(1, 30))])
        sampling = {"grammar": "json"} if choose.random() < 0.2 else {}
        version = choose.randint(1, 3)
        records.append(
            CallRecord.from_capture(capture, ledger.add(capture), sampling=sampling, policy_version=version)
        )
        ids = capture.prompt_ids + capture.generated_ids
    return records


def shown_positions(visit: Visit) -> list[tuple[int, str, bool]]:
    """Return the position, the text and the mask of every token in view, where the mask is the colour."""
    found = visit.page.locator(".token[data-at]").evaluate_all(
        "(all) => all.map((each) => [Number(each.dataset.at), each.textContent, each.classList.contains('trained')])"
    )
    return [(at, text, is_trained) for at, text, is_trained in found]


def expected_positions(segment: Segment) -> list[tuple[int, str, bool]]:
    return [
        (at, f"[{token}]", bool(bit))
        for at, (token, bit) in enumerate(zip(segment.token_ids, segment.loss_mask, strict=True))
    ]


def test_every_position_of_twenty_rows(tmp_path: Path, visit: Visit) -> None:
    rows = [recorded(seed, random_calls(seed)) for seed in range(ROWS)]
    path = write_run(tmp_path / "out.jsonl", rows)
    start = positions = 0
    with serving([path]) as address:
        visit.open(address)
        for task, line in enumerate(path.read_bytes().splitlines(keepends=True)):
            segments = build_segments(read_calls(json.loads(line)))
            url = f"{address.split('?')[0]}api/runs/r0/tokens/{start}-{len(line)}"
            start += len(line)
            if not segments:
                continue
            answer = visit.page.request.get(url).json()["segments"]
            assert [each["logprobs"] for each in answer] == [segment.logprobs for segment in segments]
            visit.go(f"#/r0/rollout/{task}/0?tab=tokens")
            visit.wait_for(f"Task {task},", "h1")
            for number, segment in enumerate(segments, start=1):
                visit.page.get_by_role("button", name=f"segment {number} of {len(segments)}").click()
                visit.page.get_by_role("button", name="loss mask").click()
                visit.page.locator(f'.token[data-at="{len(segment.token_ids) - 1}"]').wait_for()
                assert shown_positions(visit) == expected_positions(segment)
                positions += len(segment.token_ids)
    assert positions > 1000


def test_every_reason_is_shown(tmp_path: Path, visit: Visit) -> None:
    rows = []
    for task, reason in enumerate(SegmentReason):
        ledger = Ledger()
        first, second = captured([1, 2], [3]), captured([9], [8])
        begun = CallRecord.from_capture(second, ledger.add(second))
        records = [CallRecord.from_capture(first, ledger.add(first)), replace(begun, reason=reason)]
        rows.append(recorded(task, [*records, *(CallRecord(masked=masked) for masked in MaskReason)]))
    with serving([write_run(tmp_path / "out.jsonl", rows)]) as address:
        visit.open(address)
        for task, reason in enumerate(SegmentReason):
            visit.go(f"#/r0/rollout/{task}/0?tab=tokens")
            visit.wait_for(f"Task {task},", "h1")
            visit.page.get_by_role("button", name="segment 2 of 2").click()
            visit.wait_for(f"The segment begins because of: {reason}", ".tokens")
        for call, masked in enumerate(MaskReason, start=2):
            visit.wait_for(f"Call {call} is masked: {masked}", ".tokens")


def test_grammar_and_policy_versions_have_colours(tmp_path: Path, visit: Visit) -> None:
    ledger, records = Ledger(), []
    for version, sampling in ((1, {}), (2, {"grammar": "json"})):
        capture = captured([1, 2, 3, 4][: 2 * version], [3, 4] if version == 1 else [5])
        records.append(
            CallRecord.from_capture(capture, ledger.add(capture), sampling=sampling, policy_version=version)
        )
    with serving([write_run(tmp_path / "out.jsonl", [recorded(0, records)])]) as address:
        visit.open(address, "#/r0/rollout/0/0?tab=tokens")
        tokens = visit.page.locator(".token[data-at]")
        tokens.last.wait_for()
        visit.page.get_by_role("button", name="policy version").click()
        tones = tokens.evaluate_all("(all) => all.map((each) => each.className.split(' ')[1])")
        assert tones == ["context", "context", "version-0", "version-0", "version-1"]
        visit.press("v")
        visit.wait_for("sampled under a grammar", ".legend")
        assert [is_under for _, _, is_under in shown_positions(visit)] == [False] * 4 + [True]
        tokens.last.click()
        assert "sampled under a grammar" in visit.text(".token-facts")


def test_a_part_of_a_character_is_shown_as_its_bytes(tmp_path: Path, visit: Visit) -> None:
    vocabulary = {"model": {"vocab": {"Ã": 1, "¤": 2, "Ġthe": 3}}, "decoder": {"type": "ByteLevel"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [sampled("x", [1], [2, 3], [-0.5, -0.5])])])
    with serving([run], f"+tokenizer={tmp_path}") as address:
        visit.open(address, "#/r0/rollout/0/0?tab=tokens")
        visit.page.locator('.token[data-at="2"]').wait_for()
        assert [text for _, text, _ in shown_positions(visit)] == ["\\xc3", "\\xa4", " the"]


def test_texts_of_the_run_are_exact(tmp_path: Path, visit: Visit) -> None:
    texts = {"1": "<|im_start|>", "2": " the", "3": "größe", "4": "\n", "5": "  "}
    (tmp_path / "out_token_texts.json").write_text(json.dumps(texts), encoding="utf-8")
    run = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [sampled("x", [1, 2], [3, 4, 5, 6], [-0.5] * 4)])])
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0?tab=tokens")
        visit.page.locator('.token[data-at="5"]').wait_for()
        shown = [text for _, text, _ in shown_positions(visit)]
        assert shown == ["<|im_start|>", " the", "größe", "↵", "  ", "[6]"]
