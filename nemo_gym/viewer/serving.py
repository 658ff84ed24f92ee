"""The viewer as a program: listen on loopback, announce the address with its token, and serve until stopped."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

from nemo_gym.serving.listening import BACKLOG, Listener
from nemo_gym.transport.local_sockets import listen_at
from nemo_gym.viewer.access import GuardedApp
from nemo_gym.viewer.controlling import CONTROL_PATH
from nemo_gym.viewer.server import Viewer, make_app

_GRACE_S = 1.0


async def serve(viewer: Viewer, announce: Callable[[str], None], *, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT, then close `viewer`. `announce` is called with the address once it can be opened.

    Raises OSError for an address that cannot be bound.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    listening = listen_at(socket.AF_INET, (host, port), BACKLOG)
    guarded = GuardedApp(make_app(viewer), CONTROL_PATH)
    listener = Listener(guarded)
    await listener.start(listening)
    try:
        announce(f"http://{host}:{listening.getsockname()[1]}/?token={guarded.token}")
        await stopped.wait()
    finally:
        await listener.stop(_GRACE_S)
        await viewer.close()
