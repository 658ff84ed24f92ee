"""Token ids of a text or of messages, and back."""

from __future__ import annotations

from tests.mock_engine.wire import running


async def test_tokens_can_be_counted_and_turned_back_into_text() -> None:
    async with running() as wire:
        _, counted = await wire.post("/tokenize", prompt="ab cd", return_token_strs=True)
        _, text = await wire.post("/detokenize", tokens=counted["tokens"])
        status, _ = await wire.post("/detokenize", tokens=[10**9])
    assert (counted["count"], counted["token_strs"]) == (3, ["ab", " c", "d"])
    assert text == {"prompt": "ab cd"}
    assert status == 400
