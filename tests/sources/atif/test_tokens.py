"""The ids of a call are in the metrics, and its record beside them."""

from __future__ import annotations

import pytest

from nemo_gym.rows.calls import read_whole_calls
from nemo_gym.sources.atif.tokens import read_foreign_tokens, read_tokens, write_metrics
from nemo_gym.tokens.records import CARRIED_FIELDS, TokenForm
from tests.export.rows import row
from tests.sources.atif.trajectory_rows import record_items


@pytest.mark.parametrize("form", TokenForm)
def test_the_fields_of_every_form_come_back(form: TokenForm) -> None:
    items = record_items(form)
    calls = {call.position: call for call in read_whole_calls(row(items=items))}
    assert len(calls) == 5
    for index, item in enumerate(items):
        carried = {name: value for name, value in item.items() if name in CARRIED_FIELDS}
        written = write_metrics(item, calls.get(index))
        assert (written is None) is (not carried)
        if written is not None:
            assert read_tokens(*written) == carried
            assert "ids" not in written[1]["fields"].get("_ng_tokens", {}) or index not in calls


def test_foreign_tokens_need_ids_of_both_and_a_logprob_each() -> None:
    whole = {"prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-1.0]}
    assert read_foreign_tokens(whole) == {
        "prompt_token_ids": [1],
        "generation_token_ids": [2],
        "generation_log_probs": [-1.0],
    }
    for name in whole:
        assert read_foreign_tokens({**whole, name: None}) is None
