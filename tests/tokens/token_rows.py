"""Rows with token records: of this gym after a drift, and of other gyms."""

from __future__ import annotations

from random import Random
from typing import Any

from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from nemo_gym.rows.calls import read_calls
from nemo_gym.rows.forms import ScoredRow
from nemo_gym.tokens.records import CONTRACT_FIELDS
from nemo_gym.tokens.segments import build_segments
from tests.tokens.conversations import Ground, converse


async def drifting_row(form: str = "contract") -> ScoredRow:
    """A rollout of several segments."""
    ground = Ground(template=ForgetfulTemplate(), odd_share=0.5, token_fields=form)
    for number in range(50):
        talk = await converse(ground, Random(number), str(number))
        if len(build_segments(read_calls(talk.row))) > 2:
            return talk.row
    raise AssertionError("no conversation drifted")


def foreign(*calls: tuple[list[int], list[int], list[Any]]) -> dict[str, Any]:
    return {"response": {"output": [dict(zip(CONTRACT_FIELDS, call, strict=True)) for call in calls]}}
