"""Samples of a profiler become shares by kind of work."""

from __future__ import annotations

import pytest

from perf.profile import KINDS, shares_of

LOOP = (
    'process 7:"python";run_forever (/project/uvloop/loop.c:1);'
    "RequestMiddleware._handle (/repo/nemo_gym/serving/middleware.py:100)"
)


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ("", "middleware, routes, sessions"),
        (";dict_get (/python/libpython3.11.so)", "middleware, routes, sessions"),
        (";PlainHttp.send (/repo/nemo_gym/transport/_plain_http.py:1)", "client and transport"),
        (";UVStream_write (/project/uvloop/loop.c:2)", "event loop (uvloop)"),
        (";UVStream_write (/uvloop/loop.c:2);write (/usr/lib/libc.so.6)", "reading and writing sockets, polling"),
        (";0x7f (/venv/site-packages/orjson/orjson.so);unicode_new (/python/libpython3.11.so)", "JSON (orjson)"),
        (";current_task (/python/asyncio/tasks.py:38);getpid (/usr/lib/libc.so.6)",
         "asyncio: tasks, timeouts, the running loop"),
        (";drive_episode (/repo/nemo_gym/episodes/driver.py:1)", "episode and agent"),
        (";chat_request_of (/repo/nemo_gym/responses/_chat_request.py:1)", "conversion and engine calls"),
        (";Weather.verify (/repo/resources_servers/weather/app.py:1)", "environment"),
    ],
)  # fmt: skip
def test_a_sample_belongs_to_the_innermost_frame_that_a_kind_claims(frames: str, kind: str) -> None:
    shares = shares_of(f"{LOOP}{frames} 3\n")
    assert shares[kind] == 100.0
    assert sum(shares.values()) == 100.0


def test_threads_that_wait_are_left_out() -> None:
    waiting = 'process 7:"python";Event.wait (/python/threading.py:629);0x7f (/usr/lib/libc.so.6) 90\n'
    shares = shares_of(f"{waiting}{LOOP} 10\n")
    assert shares["middleware, routes, sessions"] == 100.0


def test_nothing_seen_is_no_share_of_anything() -> None:
    assert set(shares_of("")) == {*KINDS, "the rest"}
    assert not any(shares_of("").values())
