from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.processes import messages

Channel = tuple[socket.socket, socket.socket]


@pytest.fixture
def channel() -> Iterator[Channel]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@given(st.lists(st.one_of(st.none(), st.integers(), st.text(), st.binary(max_size=9)), max_size=4))
def test_what_is_sent_arrives_in_order(sent: list[object]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for message in sent:
            messages.send(ours, message)
        assert [messages.receive(theirs) for _ in sent] == sent


async def test_a_message_larger_than_a_socket_holds_arrives_whole(channel: Channel) -> None:
    ours, theirs = channel
    theirs.setblocking(False)
    sent = os.urandom(5_000_000)
    sending = threading.Thread(target=messages.send, args=(ours, sent))
    sending.start()
    assert await messages.receive_async(theirs) == sent
    sending.join()


def test_descriptors_travel_with_their_message_and_are_open(channel: Channel) -> None:
    ours, theirs = channel
    reader, writer = os.pipe()
    messages.send(ours, "before")
    messages.send(ours, "with", [writer, writer])
    os.close(writer)
    assert messages.receive_with_descriptors(theirs) == ("before", [])
    message, descriptors = messages.receive_with_descriptors(theirs)
    assert message == "with"
    for descriptor in descriptors:
        os.write(descriptor, b"x")
        os.close(descriptor)
    assert os.read(reader, 9) == b"xx"
    os.close(reader)


@pytest.mark.parametrize("torn", [0, 3, 8, 12])
async def test_a_channel_closed_within_a_message_raises_eof_error(torn: int, channel: Channel) -> None:
    data = messages.frame("a message")[:torn]
    for is_async in (False, True):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(data)
            ours.close()
            theirs.setblocking(not is_async)
            with pytest.raises(EOFError, match="closed"):
                _ = await messages.receive_async(theirs) if is_async else messages.receive(theirs)
