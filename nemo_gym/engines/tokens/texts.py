"""The texts of token ids, from an engine's `/detokenize`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from nemo_gym.engines.engine import UpstreamEngine
from nemo_gym.failures import GymError

log = logging.getLogger(__name__)

_FIRST_S = 2.0
_IN_PARALLEL = 32
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""The engine's text of bytes that are only a part of a character."""


async def fetch_texts(
    engine: UpstreamEngine, model: str, ids: Sequence[int], *, seconds: float
) -> dict[int, str]:
    """Return the texts of those ids whose texts are exact and known within `seconds`.

    Tokenizers drop a space at the beginning of a text, so the text of every id is asked for twice in a row.
    """
    texts: dict[int, str] = {}

    async def ask(tokens: Iterable[int]) -> None:
        for token in tokens:
            request = {"model": model, "tokens": [token, token]}
            twice = (await engine.post("/detokenize", request, at_root=True)).body.get("prompt")
            text = halve_text(twice) if isinstance(twice, str) else None
            if text is not None:
                texts[token] = text

    try:
        async with asyncio.timeout(_FIRST_S):  # an engine that has ended does not hold up the end of a run
            await ask(ids[:1])
        pending = iter(ids[1:])
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            for _ in range(_IN_PARALLEL):
                group.create_task(ask(pending))
    except* (GymError, TimeoutError) as errors:
        log.info("%d of %d texts of tokens are known: %s", len(texts), len(ids), errors.exceptions[0])
    return texts


def halve_text(twice: str) -> str | None:
    """Return the text of a token from that of the token twice; None if it is not exact.

    `the the` is ` the` twice, without the space at the beginning.
    """
    half = len(twice) // 2
    text = twice[half:]
    is_exact = _UNKNOWN not in twice and twice.removeprefix(text[1:] if len(twice) % 2 else text) == text
    return text if is_exact and (len(twice) % 2 == 0 or text[0] == " ") else None
