"""Captured calls and digests of messages, made from short texts."""

from __future__ import annotations

from nemo_gym.tokens.capture import Capture, PromptIds
from nemo_gym.tokens.histories import History, MessageDigest
from nemo_gym.tokens.ids import encode_ids


def captured(prompt: list[int], generated: list[int]) -> Capture:
    logprobs = [-token / 8 for token in generated]
    return Capture(PromptIds(encode_ids(prompt)), generated, logprobs, None, encode_ids(generated))


def said(*words: str) -> History:
    return tuple(
        MessageDigest(role="user", content_hash=hash(word), has_reasoning=False, size=len(word))
        for word in words
    )
