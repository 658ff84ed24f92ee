"""The prompt ids, generated ids and log-probabilities of one call, read from an engine's answer.

Engines report ids in several places; the most trusted place is read. A call is masked if two places disagree, or if
a value is missing, too short or not a number. A masked call has no ids, so training on zeros by mistake is impossible.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from nemo_gym.responses.logprobs import MISSING_LOGPROB
from nemo_gym.tokens.ids import decode_ids, encode_floats, encode_ids, write_ids
from nemo_gym.tokens.light_parsing import IdText
from nemo_gym.tokens.reasons import MaskReason

LOWEST_LOGPROB = MISSING_LOGPROB + 1.0
"""Values at or below this are the engine's sentinel for a missing log-probability, with a margin for rounding."""
_ABOVE_CERTAIN = 1e-3
"""The largest log-probability above 0 that rounding can cause."""
_FIRST_BYTES = bytes(range(0x80, 0xC6))
"""Of 32-bit floats from -0.0 down to -8192, which is excluded."""
_TOKEN, _LOGPROB = itemgetter("token"), itemgetter("logprob")
_NAMED = "token_id:"
_NAMES = re.compile(r"token_id:(?:0|[1-9][0-9]*+)(?:,token_id:(?:0|[1-9][0-9]*+))*+")


class PromptIds(NamedTuple):
    """The ids of a prompt."""

    encoded: bytes
    """As bytes, written by `ids.encode_ids`."""
    text: bytes | None = None
    """As JSON without white space and brackets, if the engine's answer was parsed lightly."""


_NO_IDS = PromptIds(b"")


@dataclass(frozen=True, slots=True)
class Capture:
    """The ids of one call. If `masked` gives a reason, all are empty."""

    prompt: PromptIds = _NO_IDS
    generated_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    masked: MaskReason | None = None
    encoded_generated: bytes = b""
    """The generated ids as bytes."""

    @property
    def prompt_ids(self) -> list[int]:
        return decode_ids(self.prompt.encoded)


def capture_chat(
    chat: Mapping[str, Any], find_known: Callable[[bytes], PromptIds | None] = lambda text: None
) -> Capture:
    """Return the ids of a chat completion. `find_known` reads the text of a prompt that begins with known ids.

    Places of the prompt ids, most trusted first: the top level, the choice, the message (NeMo RL's server). Places of
    the generated ids: the choice, the message, the token names of the log-probabilities (`token_id:N`, written by
    engines older than `return_token_ids`).
    """
    choice = chat["choices"][0]
    message = _read_mapping(choice.get("message"))
    entries = _read_mapping(choice.get("logprobs")).get("content")
    entries = entries if isinstance(entries, list) and set(map(type, entries)) <= {dict} else []
    prompt, prompts_agree = _first(source.get("prompt_token_ids") for source in (chat, choice, message))
    ids, ids_agree = _first((choice.get("token_ids"), message.get("generation_token_ids")))
    named = None if _are_names_of(ids, entries) else _parse_named_ids(entries) or None
    if named is not None:
        ids, ids_agree = (named, True) if ids is None else (ids, ids_agree and ids == named)
    if isinstance(ids, list) and named is not None and len(named) != len(ids):
        return Capture(masked=MaskReason.SHORT_LOGPROBS)
    if not prompts_agree or not ids_agree:
        return Capture(masked=MaskReason.CONFLICTING_TOKEN_IDS)
    if not prompt or not ids or prompt == IdText(b""):
        return Capture(masked=MaskReason.MISSING_TOKEN_IDS)
    try:
        read, encoded = _read_prompt(prompt, find_known), encode_ids(ids)
    except ValueError:
        return Capture(masked=MaskReason.INVALID_TOKEN_IDS)
    counted = _read_mapping(chat.get("usage")).get("completion_tokens")
    if type(counted) is int and counted != len(ids):
        return Capture(masked=MaskReason.SHORT_TOKEN_IDS)
    logprobs = _read_logprobs(entries) or message.get("generation_log_probs")
    masked = find_logprobs_fault(logprobs, len(ids))
    return Capture(masked=masked) if masked else Capture(read, ids, list(logprobs or ()), None, encoded)


def _read_logprobs(entries: Sequence[Mapping[str, Any]]) -> list[Any]:
    try:
        return list(map(_LOGPROB, entries))
    except KeyError:
        return [entry.get("logprob") for entry in entries]


def _read_prompt(prompt: Any, find_known: Callable[[bytes], PromptIds | None]) -> PromptIds:
    """Raises ValueError for a value that is no list of ids."""
    if not isinstance(prompt, IdText):
        return PromptIds(encode_ids(prompt))
    known = find_known(prompt.text)
    if known is not None:
        return known
    ids = prompt.decode()
    return PromptIds(encode_ids(ids), write_ids(ids))


def find_logprobs_fault(logprobs: object, count: int) -> MaskReason | None:
    """Return the defect of the log-probabilities of `count` generated ids, or None."""
    if not isinstance(logprobs, Sequence) or not logprobs:
        return MaskReason.MISSING_LOGPROBS
    if len(logprobs) != count:
        return MaskReason.SHORT_LOGPROBS
    if _are_below_zero(logprobs):
        return None
    if not set(map(type, logprobs)) <= {float, int}:
        return MaskReason.INVALID_LOGPROBS
    if not math.isfinite(sum(logprobs)) or min(logprobs) <= LOWEST_LOGPROB or max(logprobs) > _ABOVE_CERTAIN:
        return MaskReason.INVALID_LOGPROBS
    return None


def _are_below_zero(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers below 0 and above -8192, by the first byte of each as a 32-bit float."""
    try:
        return not encode_floats(values)[3::4].translate(None, _FIRST_BYTES)
    except ValueError:
        return False


def _first(sources: Any) -> tuple[Any, bool]:
    """Return the first source that is not None, and whether all such sources are equal."""
    given = [source for source in sources if source is not None]
    return (given[0], all(source == given[0] for source in given[1:])) if given else (None, True)


def _are_names_of(ids: object, entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the tokens of the log-probabilities are `token_id:N` for each of the ids, as usual."""
    if not isinstance(ids, list) or not ids or len(ids) != len(entries):
        return False
    try:
        written = write_ids(ids).decode().replace(",", f",{_NAMED}")
        return f"{_NAMED}{written}" == ",".join(map(_TOKEN, entries))
    except (KeyError, TypeError):
        return False


def _parse_named_ids(entries: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Return the ids in `token_id:N` strings, or None if the engine wrote tokens as text."""
    names = [entry.get("token") for entry in entries]
    if not names or not isinstance(names[0], str) or not names[0].startswith(_NAMED):
        return None
    try:
        joined = ",".join(names)  # type: ignore[arg-type]
    except TypeError:
        return None
    if not _NAMES.fullmatch(joined):
        return None
    ids: list[int] = orjson.loads(f"[{joined.replace(_NAMED, '')}]")
    return ids if len(ids) == len(names) else None


def _read_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
