"""The texts of token ids, from an engine's `/detokenize`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from nemo_gym.engines.engine import UpstreamEngine
from nemo_gym.failures import GymError

__all__ = ["fetch_texts"]

log = logging.getLogger(__name__)

_FIRST_S = 2.0
_ALONE = 8
"""Tokens that are asked for one by one at first. The longest of their texts marks the ends of others."""
_AT_ONCE = 256
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""The engine's text of bytes that are only a part of a character."""


async def fetch_texts(
    engine: UpstreamEngine, model: str, ids: Sequence[int], *, seconds: float
) -> dict[int, str]:
    """Return the texts of those ids whose texts are exact and known within `seconds`.

    Tokenizers drop a space at the beginning of a text, so the text of every id is asked for twice in a row.
    """
    texts: dict[int, str] = {}

    async def read(tokens: Sequence[int]) -> str:
        answer = await engine.post("/detokenize", {"model": model, "tokens": tokens}, at_root=True)
        text = answer.body.get("prompt")
        return text if isinstance(text, str) else _UNKNOWN

    async def ask(tokens: Sequence[int]) -> None:
        """Ask for the texts of tokens at once, and of each half of them if they cannot be told apart."""
        mark = max(texts, key=lambda token: len(texts[token]), default=None)
        if len(tokens) == 1 or mark is None:
            twice = [await read([token, token]) for token in tokens]
        else:
            between = [each for token in tokens for each in (token, token, mark)]
            twice = split_texts(await read([mark, mark, *between]), texts[mark])
        if len(twice) == len(tokens):
            found = zip(tokens, map(halve_text, twice), strict=True)
            texts.update((token, text) for token, text in found if text is not None)
        else:
            middle = len(tokens) // 2
            await ask(tokens[:middle])
            await ask(tokens[middle:])

    try:
        async with asyncio.timeout(_FIRST_S):  # an engine that has ended does not hold up the end of a run
            await ask(ids[:: max(1, len(ids) // _ALONE)][:_ALONE])
        left = [token for token in ids if token not in texts]
        async with asyncio.timeout(seconds):
            for start in range(0, len(left), _AT_ONCE):
                await ask(left[start : start + _AT_ONCE])
    except (GymError, TimeoutError) as error:
        log.info("%d of %d texts of tokens are known: %s", len(texts), len(ids), error)
    return texts


def split_texts(text: str, mark: str) -> list[str]:
    """Return the texts between the marks of a text that begins with the mark twice; empty if it does not.

    The first mark may lack the space with which it begins.
    """
    start = next((each for each in (mark, mark.removeprefix(" ")) if text.startswith(each + mark)), None)
    if not mark or start is None or not text.endswith(mark):
        return []
    return text[len(start + mark) : -len(mark)].split(mark)


def halve_text(twice: str) -> str | None:
    """Return the text of a token from that of the token twice; None if it is not exact.

    `the the` is ` the` twice, without the space at the beginning.
    """
    half = len(twice) // 2
    text = twice[half:]
    is_exact = _UNKNOWN not in twice and twice.removeprefix(text[1:] if len(twice) % 2 else text) == text
    return text if is_exact and (len(twice) % 2 == 0 or text[0] == " ") else None
