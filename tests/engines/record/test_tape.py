from __future__ import annotations

import pytest

from nemo_gym.engines.record.tape import EngineReplyKept, EngineTape
from nemo_gym.failures import EngineError

CHAT = EngineReplyKept("/chat/completions", 200, b"{}", "u")
REFUSED = EngineReplyKept("/chat/completions", 400, b"too long", "u")
TEXT = EngineReplyKept("/detokenize", 200, b"{}", "u")


def test_a_live_tape_gives_nothing_and_keeps_what_the_engine_said() -> None:
    tape = EngineTape()
    assert tape.take(CHAT.path) is None
    tape.add(CHAT)
    assert tape.replies == [CHAT]
    assert tape.settle_versions(1, 2) == tape.versions == (1, 2)


def test_replies_are_given_in_order_by_route() -> None:
    tape = EngineTape([REFUSED, TEXT, CHAT], (4, None))
    assert [tape.take(CHAT.path), tape.take(CHAT.path), tape.take(TEXT.path)] == [REFUSED, CHAT, TEXT]
    assert tape.replies == [REFUSED, CHAT, TEXT]
    assert tape.settle_versions(9, 9) == (4, None), "the recorded policy answered"


def test_an_engine_that_would_be_asked_once_more_is_a_mismatch() -> None:
    tape = EngineTape([CHAT])
    tape.take(CHAT.path)
    assert tape.take("/detokenize") is None, "it samples nothing"
    with pytest.raises(EngineError, match="once more than the recorded one"):
        tape.take(CHAT.path)


def test_a_policy_that_is_too_old_is_refused_by_the_check() -> None:
    seen = []
    tape = EngineTape([CHAT], (4, None), lambda recorded, current: seen.append((recorded, current)))
    tape.settle_versions(9, 9)
    assert seen == [(4, 9)]
