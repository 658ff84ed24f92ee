"""Masked calls are counted by reason, and a run with too many of them fails."""

from __future__ import annotations

from random import Random

from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.masking import MaskCounters
from nemo_gym.tokens.records import RECORD_FIELD, TokenForm
from tests.tokens.conversations import Ground, converse
from tests.tokens.token_rows import foreign


async def test_masked_calls_are_counted_by_reason_and_in_every_form() -> None:
    counters = MaskCounters()
    for form in TokenForm:
        ground = Ground(token_fields=form, engine={"faults": [{"do": "logprob_nan", "nth": 1}]})
        row = (await converse(ground, Random(3), "session")).row
        assert [record.masked for record in read_calls(row) if record.masked] == ["invalid_logprobs"]
        counters.add(row)
    assert counters.masked == {"invalid_logprobs": 3}
    calls = counters.calls
    counters.add(foreign(([1, 2], [3], [-0.5])))
    counters.add({"response": {"output": [{RECORD_FIELD: {"policy_version": 3}}, {"type": "message"}]}})
    assert counters.calls == calls + 1


def test_a_run_with_too_many_masked_calls_says_which_and_what_to_do() -> None:
    counters = MaskCounters()
    assert counters.excess(0.0) is None
    masked = {RECORD_FIELD: {"call": 0, "masked": "raw_logprobs"}}
    good = {RECORD_FIELD: {"call": 0, "sequence": "x"}}
    counters.add({"response": {"output": [masked, *[good] * 9]}})
    assert counters.fraction == 0.1
    assert counters.excess(0.1) is None
    message = counters.excess(0.05)
    assert message is not None
    assert "1 of 10 model calls (10.0%)" in message
    assert "raw_logprobs 1" in message
    assert "--logprobs-mode processed_logprobs" in counters.remedy
