from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.export.report import LeftOut, Loss
from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.export.rows import exported, row, text, token_rows
from tests.tokens.checks import read_as_nemo_rl


@pytest.mark.parametrize("form", ["contract", "packed", "lists"])
async def test_drifting_rollouts_are_one_sequence_and_the_rest_is_a_loss(form: str, tmp_path: Path) -> None:
    """The contract's checks hold for every form of token fields; the rest of the row is unchanged."""
    rows = await token_rows(5, 2, form, template=ForgetfulTemplate(), odd_share=0.3, token_fields=form)
    written, report = exported(tmp_path, "nemo_rl", rows)
    drifted = 0
    for each, exact in zip(written, rows, strict=True):
        first, *later = build_segments(read_calls(exact))
        sampled = [token for token, bit in zip(first.token_ids, first.loss_mask, strict=True) if bit]
        assert read_as_nemo_rl(each) == sampled
        assert build_segments(read_calls(each)) == [first, *later], "nothing is lost, only packed"
        assert {k: v for k, v in each.items() if k != "response"} == {
            k: v for k, v in exact.items() if k != "response"
        }
        drifted += bool(later)
    assert report.losses[Loss.LATER_SEGMENTS] == drifted > 0


def test_rows_without_tokens_are_left_out(tmp_path: Path) -> None:
    nan = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [None]}
    _, report = exported(tmp_path, "nemo_rl", [row(0), row(1, items=[text("a") | nan])])
    assert report.left_out == {LeftOut.NO_TOKENS: 2}
