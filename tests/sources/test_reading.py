"""The parts of rows that readers of all formats share."""

from __future__ import annotations

import pytest

from nemo_gym.responses.schemas import Response
from nemo_gym.sources.reading import build_response, describe_tokens


def test_a_response_is_one_of_the_api() -> None:
    built = build_response("t1", "m", [])
    assert Response.model_validate(built).id == "resp_t1"
    assert built["usage"] is None


@pytest.mark.parametrize(("calls", "whole", "told"), [(2, 2, "whole"), (2, 1, "partial"), (2, 0, "none")])
def test_tokens_are_whole_if_every_call_has_them(calls: int, whole: int, told: str) -> None:
    assert describe_tokens(calls, whole) == told
