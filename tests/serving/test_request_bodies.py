"""The bounds of bodies without the run's token."""

from __future__ import annotations

import asyncio

import pytest

from nemo_gym.failures import InputError
from nemo_gym.serving.request_bodies import BodyReader, require_plain
from nemo_gym.transport.request_body import Message, Receive, WholeBody

KIB = 1 / 1024


def receiving(*sizes: int, then: asyncio.Event | None = None) -> Receive:
    """Return a `receive` of parts of these sizes, which waits before the last one."""
    left = list(sizes)

    async def receive() -> Message:
        if len(left) == 1 and then is not None:
            await then.wait()
        return {"type": "http.request", "body": b"x" * left.pop(0), "more_body": bool(left)}

    return receive


@pytest.mark.parametrize("sizes", [(1024,), (1000, 24), (0, 0, 0)])
async def test_a_body_of_the_largest_size_is_read(sizes: tuple[int, ...]) -> None:
    body = await BodyReader(KIB).read(receiving(*sizes), None, is_trusted=False)
    assert body == b"x" * sum(sizes)


@pytest.mark.parametrize("sizes", [(1025,), (1000, 25), (1, 1, 1024)])
@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_larger_one_is_refused_unless_it_is_trusted(
    sizes: tuple[int, ...], is_announced: bool
) -> None:
    announced = b"%d" % sum(sizes) if is_announced else None
    reader = BodyReader(KIB)
    with pytest.raises(InputError, match=r"at most 0\.000976562 MiB") as caught:
        await reader.read(receiving(*sizes), announced, is_trusted=False)
    assert caught.value.failure.http_status == 413
    assert await reader.read(receiving(*sizes), announced, is_trusted=True) == b"x" * sum(sizes)
    assert await reader.read(WholeBody(b"x" * 2000, receiving(0)), announced, is_trusted=False) == b"x" * 2000


async def test_an_announced_size_is_refused_before_anything_is_received() -> None:
    async def receive() -> Message:
        raise AssertionError("the client was asked for the body")

    with pytest.raises(InputError, match="at most"):
        await BodyReader(KIB).read(receive, b"1025", is_trusted=False)


async def test_unfinished_bodies_are_bounded_together_and_finished_ones_make_room() -> None:
    reader, proceed = BodyReader(KIB), asyncio.Event()
    unfinished = [
        asyncio.create_task(reader.read(receiving(1000, 0, then=proceed), None, is_trusted=False))
        for _ in range(4)
    ]
    await asyncio.sleep(0)
    with pytest.raises(InputError, match="reads no more of them") as caught:
        await reader.read(receiving(1000), None, is_trusted=False)
    assert (caught.value.failure.http_status, caught.value.failure.retryable) == (503, True)
    assert await reader.read(receiving(5000), None, is_trusted=True) is not None
    proceed.set()
    assert [len(body or b"") for body in await asyncio.gather(*unfinished)] == [1000] * 4
    assert await reader.read(receiving(1000), None, is_trusted=False) == b"x" * 1000


async def test_a_body_that_is_not_complete_in_time_is_refused() -> None:
    never = asyncio.Event()
    with pytest.raises(InputError, match=r"not complete within 0\.01 s") as caught:
        await BodyReader(KIB, body_s=0.01).read(receiving(1, 1, then=never), None, is_trusted=False)
    assert (caught.value.failure.http_status, caught.value.failure.retryable) == (408, True)


async def test_a_client_that_leaves_has_sent_no_body() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    assert await BodyReader(KIB).read(receive, None, is_trusted=False) is None


@pytest.mark.parametrize(
    "given",
    [
        [(b"content-encoding", b"gzip")],
        [(b"content-encoding", b"Deflate")],
        [(b"content-encoding", b"br, identity")],
        [(b"content-encoding", b"zstd"), (b"content-encoding", b"identity")],
        [(b"transfer-encoding", b"gzip, chunked")],
        [(b"transfer-encoding", b"gzip"), (b"transfer-encoding", b"chunked")],
        [(b"content-encoding", b"of no one")],
    ],
)
def test_a_coded_body_is_refused(given: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(InputError, match="reads only plain ones") as caught:
        require_plain([(b"content-type", b"application/json"), *given])
    assert caught.value.failure.http_status == 415


@pytest.mark.parametrize(
    "given",
    [
        [],
        [(b"content-encoding", b"identity")],
        [(b"content-encoding", b"")],
        [(b"transfer-encoding", b"Chunked")],
        [(b"accept-encoding", b"gzip")],
    ],
)
def test_a_plain_body_is_not(given: list[tuple[bytes, bytes]]) -> None:
    require_plain(given)
    assert len(given) < 2
