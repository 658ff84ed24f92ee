"""Tiny servers for launch tests: raw asyncio on the held socket, so that a process starts in milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch._states import RestartPolicy
from nemo_gym.launch.gym import LaunchOptions
from nemo_gym.launch.records import Registry
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.transport import Call, call_once

ECHO_SERVER = """
import asyncio, json, os, signal, socket, sys
from nemo_gym.config.bootstrap import current

given = current()

async def handle(reader, writer):
    head = await reader.readuntil(b"\\r\\n\\r\\n")
    path = head.split()[1].decode()
    if path == "/crash":
        os._exit(7)
    facts = {"pid": os.getpid(), "name": given.server_name, "replica": given.replica, "path": sys.path[0],
             "argv": sys.argv, "folder": os.getcwd(), "requests": 1, "errors": 2, "in_flight": 3,
             "socket": writer.get_extra_info("socket").family.name}
    busy = f"busy.{given.replica}"  # a test writes its sessions
    if path == "/_ng/sessions":
        facts = open(busy).read().split() if os.path.exists(busy) else []
    body = json.dumps(facts).encode()
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body)
    await writer.drain()
    writer.close()

async def main():
    for fd in given.listen_fds:
        await asyncio.start_server(handle, sock=socket.socket(fileno=fd))
    print("serving", flush=True)
    await asyncio.Event().wait()

PREAMBLE
asyncio.run(main())
"""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
WITH_DAEMON = """
import subprocess
daemon = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
with open("daemon.pid", "w") as file:
    file.write(str(daemon.pid))
"""


def write_server(folder: Path, preamble: str = "") -> Path:
    """An implementation folder whose `app.py` runs `preamble` and then serves."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "app.py").write_text(ECHO_SERVER.replace("PREAMBLE", preamble))
    return folder


def small_instance(name: str, directory: Path, num_workers: int = 1) -> ServerInstance:
    return ServerInstance(
        name, "resources_servers", "small", directory, "app.py", {}, None, num_workers=num_workers
    )


@dataclass(frozen=True)
class SmallConfig:
    servers: Sequence[ServerInstance]
    data: Mapping[str, Any]
    code_runners: Sequence[str] = ()

    def is_given(self, path: str) -> bool:
        block, _, key = path.partition(".")
        return key in self.data.get(block, {})


def config_of(*instances: ServerInstance, **keys: Any) -> SmallConfig:
    blocks = {each.name: {each.kind: {each.implementation: {"entrypoint": "app.py"}}} for each in instances}
    return SmallConfig(instances, {**blocks, **keys})


@dataclass
class Workbench:
    """A folder for launches, separate from other gyms of this machine."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    def instance(self, name: str, preamble: str = "", num_workers: int = 1) -> ServerInstance:
        return small_instance(name, write_server(self.folder / name, preamble), num_workers)

    @property
    def registry(self) -> Registry:
        return Registry(self.folder / "registry")

    def options(self, **changes: Any) -> LaunchOptions:
        """Launch options with a fork server without preloaded modules."""
        defaults: dict[str, Any] = {
            "announce": self.lines.append,
            "working_folder": self.folder,
            "registry": self.registry,
            "policy": RestartPolicy(first_delay_s=0.02),
            "head_script": write_server(self.folder / "head") / "app.py",
            "fork_server": ForkServer(),
        }
        return LaunchOptions(**{**defaults, **changes})


async def facts_of(url: str, path: str = "/") -> dict[str, Any]:
    import json

    answer = await call_once(url, Call("GET", path), timeout_s=30)
    facts: dict[str, Any] = json.loads(answer.body)
    return facts
