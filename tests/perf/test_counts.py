"""The hot path, counted: a rollout that takes a tenth more calls or instructions than the committed numbers fails."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from perf.calls import Work, work_inline, work_over_sockets


class Counts(NamedTuple):
    calls: float
    instructions: float


COMMITTED = {
    "inline": Counts(1022, 23_177),
    "over sockets": Counts(1493, 33_100),
    "the record of a durable attempt": Counts(124, 2851),
}
"""The figures of `python -m perf calls` on Python 3.11. Lower them when the hot path gets shorter."""
ALLOWED = 0.10

only_where_committed = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="bytecode differs by version; the numbers are Python 3.11's"
)


def fault_in(work: Work, committed: Counts) -> str | None:
    """Return the change of the work as text, or None without a change."""
    counted = Counts(work.calls_per_rollout, work.instructions_per_rollout)
    for name, now, before in zip(Counts._fields, counted, committed, strict=True):
        if now > before * (1 + ALLOWED):
            most = "\n".join(
                f"{takes['instructions']:8.1f} {function}" for function, takes in work.most(40).items()
            )
            return f"{now:.0f} {name} a rollout, not {before:.0f}; most instructions are those of:\n{most}"
        if now < before * (1 - ALLOWED):
            return f"{now:.0f} {name} a rollout, not {before:.0f}: commit it, so that the next regression is seen"
    return None


@only_where_committed
def test_an_inline_rollout_takes_no_more_than_it_used_to() -> None:
    assert fault_in(work_inline(), COMMITTED["inline"]) is None


@only_where_committed
def test_a_rollout_over_sockets_takes_no_more_than_it_used_to() -> None:
    assert fault_in(work_over_sockets(), COMMITTED["over sockets"]) is None


@only_where_committed
def test_the_record_of_a_durable_attempt_takes_no_more_than_it_used_to() -> None:
    record, plain = work_over_sockets(durable=True), work_over_sockets()
    record.calls.subtract(plain.calls)
    record.instructions.subtract(plain.instructions)
    assert fault_in(record, COMMITTED["the record of a durable attempt"]) is None


def test_a_planted_regression_of_a_tenth_is_found() -> None:
    now = work_inline()
    committed = Counts(now.calls_per_rollout, now.instructions_per_rollout)
    assert fault_in(work_inline(slower_by(0.08 * committed.instructions)), committed) is None
    found = fault_in(work_inline(slower_by(0.11 * committed.instructions)), committed)
    assert found is not None
    assert "instructions a rollout" in found
    assert "slower_by.<locals>.spend" in found, "the function that takes most is named"


def test_a_hot_path_that_got_shorter_has_to_be_committed() -> None:
    now = work_inline()
    before = Counts(now.calls_per_rollout * 1.2, now.instructions_per_rollout)
    assert "commit it" in (fault_in(now, before) or "")


def test_the_engine_stub_is_left_out_and_the_libraries_are_not() -> None:
    inline = {code.co_filename for code in work_inline().calls}
    over_sockets = {code.co_filename for code in work_over_sockets().calls}
    assert any("nemo_gym/serving/middleware.py" in file for file in inline)
    assert any("pydantic/" in file for file in inline)
    assert any("uvicorn/protocols/http/httptools_impl.py" in file for file in over_sockets)
    assert any("nemo_gym/transport/_plain_http.py" in file for file in over_sockets)
    assert not any("nemo_gym/mock_engine" in file for file in inline | over_sockets)


def slower_by(instructions: float) -> Callable[[Any], Any]:
    """Puts that many instructions before every attempt: a pass of this loop is three."""

    def spend() -> None:
        for _ in range(round(instructions / 3)):
            pass

    class Slower:
        def __init__(self, app: Any) -> None:
            self._app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            spend()
            await self._app(scope, receive, send)

    return Slower
