"""Task rows of public environments, if the shared data is at hand: they convert there and back, or say why not."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses import build_chat_request, convert_chat_request
from tests.responses.canonical import canonical_params

EXAMPLES = Path(__file__).parents[3] / "shared" / "data" / "environment_examples"

EXPECTED_REFUSALS = {"input"}
"""Rows whose conversation is empty, because the environment opens it when the session starts."""


def rows() -> list[dict[str, Any]]:
    found = [
        orjson.loads(line)
        for path in sorted(EXAMPLES.glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
        if line.strip()
    ]
    if not found:
        pytest.skip(f"the example rows of public environments are not at {EXAMPLES}")
    return found


def outcome_of(params: dict[str, Any]) -> str:
    try:
        chat = build_chat_request(params)
    except InputError as error:
        return f"refused: {error.failure.param}"
    assert chat.notes == ()
    back = convert_chat_request(orjson.loads(orjson.dumps(chat.body)))
    assert back.body == canonical_params(params)
    return "converted"


def test_every_example_row_converts_or_is_refused_by_name() -> None:
    found = rows()
    outcomes = Counter(outcome_of(row["responses_create_params"]) for row in found)
    print("\n" + "\n".join(f"{count:5} {outcome}" for outcome, count in outcomes.most_common()))  # noqa: T201
    assert sum(outcomes.values()) == len(found) > 500
    refused = {outcome.removeprefix("refused: ") for outcome in outcomes if outcome != "converted"}
    assert refused <= EXPECTED_REFUSALS
    assert outcomes["converted"] > 0.9 * len(found)
