from __future__ import annotations

from pathlib import Path

import orjson

from nemo_gym.export.report import LeftOut, Loss
from nemo_gym.failures import Outcome
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.export.rows import TOOL, exported, row, text, token_rows


def test_truncated_answers_are_exported_only_with_the_option(tmp_path: Path) -> None:
    rows = [row(0, 0), row(0, 1, _ng_outcome="truncated")]
    written, report = exported(tmp_path, "sft", rows)
    assert len(written) == 1
    assert report.left_out == {LeftOut.OUTCOME: 1}
    written, _ = exported(tmp_path, "sft", rows, outcomes=frozenset({Outcome.COMPLETED, Outcome.TRUNCATED}))
    assert len(written) == 2


def test_tools_are_json_text_and_absent_where_there_are_none(tmp_path: Path) -> None:
    with_tools, without = exported(tmp_path, "sft", [row(0, tools=[TOOL]), row(1)])[0]
    assert orjson.loads(with_tools["tools"])[0]["function"]["name"] == "get_weather"
    assert without.keys() == {"messages"}


async def test_every_segment_is_a_row_and_labels_mark_the_sampled_tokens(tmp_path: Path) -> None:
    rows = await token_rows(4, 2, "odd", odd_share=0.5, token_fields="packed")
    written, report = exported(
        tmp_path, "sft", rows, options={"form": "tokens"}, merge_equal_rows=False, min_reward=0.0
    )
    segments = [segment for each in rows for segment in build_segments(read_calls(each))]
    assert len(written) == len(segments) > report.exported == 8
    assert sorted((r["input_ids"], [int(label != -100) for label in r["labels"]]) for r in written) == sorted(
        (segment.token_ids, segment.loss_mask) for segment in segments
    )


def test_rows_without_tokens_are_left_out_of_the_token_form(tmp_path: Path) -> None:
    _, report = exported(tmp_path, "sft", [row()], options={"form": "tokens"})
    assert report.left_out == {LeftOut.NO_TOKENS: 1}


def test_masked_calls_are_counted_as_a_loss(tmp_path: Path) -> None:
    good = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    bad = {"prompt_token_ids": [1, 2, 3, 4], "generation_token_ids": [5], "generation_log_probs": [None]}
    user = {"type": "message", "role": "user", "content": "and?"}
    given = row(items=[text("a") | good, user, text("b") | bad])
    (written,), report = exported(tmp_path, "sft", [given], options={"form": "tokens"})
    assert written == {"input_ids": [1, 2, 3], "labels": [-100, -100, 3], "grammar_mask": [0, 0, 0]}
    assert report.losses == {Loss.MASKED_CALLS: 1}
