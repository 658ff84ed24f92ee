"""The sandbox provider `rootless`.

A sandbox has an image of the store (`nemo_gym.sandbox.providers.rootless.build` makes them), its own files on top, and
one process namespace for all its commands, so that services go on between them. There is one user, root, which is no
user of this machine: commands of other users run as root with the other user's name and home folder. There is no
network but the loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from nemo_gym.isolation.memory import MemoryGroup, can_limit_cpus, make_memory_group
from nemo_gym.isolation.system_calls import root_call_filter, write_filter
from nemo_gym.sandbox.providers.rootless.launch import (
    BRIDGE,
    SandboxShape,
    build_command,
    build_tar_command,
    find_missing,
)
from nemo_gym.sandbox.providers.rootless.store import DEFAULT_PATH, Image, ImageStore, SandboxPlaces
from nemo_gym.sandbox.providers.specification import (
    NO_EXIT_CODE,
    SandboxCreateError,
    SandboxExecResult,
    SandboxHandle,
    SandboxResources,
    SandboxSpec,
    SandboxStatus,
)

_MIB = 1 << 20
_READY_S = 30.0
_BEGIN = '"$@" sleep infinity < /dev/null > /dev/null 2>&1 &'
"""Runs an image's ENTRYPOINT as container engines do for a sandbox: it may start services before it executes sleep."""
_REPORTED_CHARS = 2000
_COUNT = "set -- /proc/[0-9]*; echo $#"
_OWN_PROCESSES = 2
"""Processes of a sandbox in which only this count runs: its supervisor, and the shell that counts."""
_LONGEST_HEAD = 1 << 16


@dataclass(slots=True)
class RootlessSandbox:
    """The provider's state of one sandbox."""

    places: SandboxPlaces
    image: Image
    env: Mapping[str, str]
    workdir: str
    process: asyncio.subprocess.Process | None = None
    """None in a process that is connected to another one's sandbox."""
    memory: MemoryGroup | None = None
    is_open: bool = True


class RootlessProvider:
    """Creates sandboxes of images in a store, by default one for all gyms of this user."""

    name = "rootless"

    def __init__(
        self,
        *,
        store: str | None = None,
        memory_mib: int = 4096,
        max_processes: int = 2048,
        max_output_mib: int = 16,
        default_timeout_s: float = 180.0,
    ) -> None:
        self.store = ImageStore(Path(store).expanduser() if store is not None else None)
        self._memory_bytes = memory_mib * _MIB
        self._processes = max_processes
        self._output_bytes = max_output_mib * _MIB
        self._default_timeout_s = default_timeout_s

    @classmethod
    def find_missing(cls, options: Mapping[str, Any]) -> str | None:
        """The reason why no sandbox can run here; None if one can."""
        store = cls(**options).store
        if (missing := find_missing()) is not None:
            return missing
        if store.is_empty:
            return f"{store.folder} has no base system, which `gym env prefetch` installs once, with network"
        return None

    async def create(self, spec: SandboxSpec) -> SandboxHandle:
        """Start a sandbox of an image in the store. Raises SandboxCreateError naming every unsupported request."""
        return await self._create(spec, None)

    async def restore(self, spec: SandboxSpec, path: Path) -> SandboxHandle:
        """Start a sandbox as `create`, with the files that another one had at its snapshot."""
        return await self._create(spec, path)

    async def snapshot(self, handle: SandboxHandle, path: Path) -> bool:
        """Write the files that programs of a sandbox added, changed or removed into a new file.

        Returns False while processes go on in it. Raises OSError.
        """
        sandbox = _require_open(handle)
        listed = await self.run(sandbox, ["/bin/sh", "-c", _COUNT], timeout_s=_READY_S)
        if listed.return_code != 0 or int(listed.stdout or 0) > _OWN_PROCESSES:
            return False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            await self._run_tar("--create", "--directory", str(sandbox.places.upper), ".", stdout=file)
        return True

    async def _create(self, spec: SandboxSpec, snapshot: Path | None) -> SandboxHandle:
        resources = spec.resources
        assert isinstance(resources, SandboxResources)
        options = dict(spec.provider_options)
        readable = [Path(path) for path in options.pop("readable", ())]
        _refuse(spec, resources, options)
        image = self.store.find(spec.image or "")
        if image is None:
            raise SandboxCreateError(
                f"the image {spec.image!r} is not in {self.store.folder}", retryable=False
            )
        memory_bytes = resources.memory_mib * _MIB if resources.memory_mib else self._memory_bytes
        shape = SandboxShape(image.layers, [path for path in readable if path.exists()])
        sandbox = await self.start(
            shape,
            image,
            memory_bytes=memory_bytes,
            cpus=resources.cpu or None,
            env=spec.env,
            snapshot=snapshot,
        )
        sandbox.workdir = spec.workdir or image.workdir
        if image.entrypoint:
            begin = ["/bin/sh", "-c", _BEGIN, "begin", *image.entrypoint]
            await self.run(sandbox, begin, timeout_s=_READY_S)
        return SandboxHandle(sandbox.places.folder.name, self.name, sandbox)

    async def start(
        self,
        shape: SandboxShape,
        image: Image,
        *,
        memory_bytes: int | None = None,
        cpus: float | None = None,
        env: Mapping[str, str] | None = None,
        snapshot: Path | None = None,
    ) -> RootlessSandbox:
        """Start a sandbox of a shape, with the files of a snapshot if there is one. Raises SandboxCreateError."""
        missing = find_missing()
        if missing is not None:
            raise SandboxCreateError(missing)
        try:
            places = await asyncio.to_thread(self.store.new_sandbox)
        except OSError as error:
            raise SandboxCreateError(f"{self.store.folder} cannot be used: {error}") from error
        variables = {"PATH": DEFAULT_PATH, "HOME": "/root", **image.env, **(env or {})}
        sandbox = RootlessSandbox(places, image, variables, image.workdir)
        sandbox.memory = make_memory_group(memory_bytes or self._memory_bytes, cpus)
        try:
            if snapshot is not None:
                await self._unpack(snapshot, places)
            sandbox.process = await self._launch(sandbox, shape)
            await self._wait_ready(sandbox)
        except BaseException:
            await self._end(sandbox)
            raise
        return sandbox

    async def _unpack(self, snapshot: Path, places: SandboxPlaces) -> None:
        try:
            with snapshot.open("rb") as file:
                await self._run_tar("--extract", "--directory", str(places.upper), stdin=file)
        except OSError as error:
            raise SandboxCreateError(f"the snapshot {snapshot} cannot be restored: {error}") from error

    async def _run_tar(
        self, *options: str, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None
    ) -> None:
        """Run tar as the user of the store. Raises OSError with its message."""
        command = build_tar_command(self.store, *options)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=stdin or asyncio.subprocess.DEVNULL,
            stdout=stdout or asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"},
        )
        _, said = await process.communicate()
        if process.returncode != 0:
            why = said.decode(errors="replace").strip()[-_REPORTED_CHARS:]
            raise OSError(f"tar ended with {process.returncode}: {why}")

    async def _launch(self, sandbox: RootlessSandbox, shape: SandboxShape) -> asyncio.subprocess.Process:
        instructions = root_call_filter()
        assert instructions is not None
        with socket.socket(socket.AF_UNIX) as listening, os.fdopen(write_filter(instructions)) as filter_file:
            listening.bind(str(sandbox.places.control))
            listening.listen(64)
            descriptors = (listening.fileno(), filter_file.fileno())
            command = build_command(
                self.store, sandbox.places, shape, self._processes, descriptors, sandbox.memory
            )
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={"PATH": DEFAULT_PATH, "LANG": "C.UTF-8"},
                pass_fds=descriptors,
                start_new_session=True,
            )

    async def _wait_ready(self, sandbox: RootlessSandbox) -> None:
        process = sandbox.process
        assert process is not None
        assert process.stderr is not None
        first = asyncio.ensure_future(self.run(sandbox, ["/bin/true"], timeout_s=_READY_S))
        ended = asyncio.ensure_future(process.stderr.read())
        await asyncio.wait((first, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            ended.add_done_callback(lambda done: done.cancelled() or done.exception())
            if first.exception() is None:
                return
        first.cancel()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        said = (await ended).decode(errors="replace").strip()[-_REPORTED_CHARS:]
        raise SandboxCreateError(f"the sandbox does not start: {said or 'it ended without a message'}")

    async def exec(
        self,
        handle: SandboxHandle,
        command: str,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_s: float | None = None,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command in `cwd`, by default the working folder of the sandbox."""
        sandbox = _require_open(handle)
        limit = timeout_s or self._default_timeout_s
        return await self.run(
            sandbox, ["/bin/bash", "-c", command], cwd=cwd, env=env, timeout_s=limit, user=user
        )

    exec_with_background_services = exec
    """Processes that a command leaves behind go on until the sandbox ends."""

    async def run(
        self,
        sandbox: RootlessSandbox,
        program: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float,
        user: str | int | None = None,
        stdin: bytes = b"",
        max_output_bytes: int | None = None,
    ) -> SandboxExecResult:
        """Run a program. Its result says how it ended; `sandbox` if the sandbox itself has."""
        request = {
            "command": list(program),
            "cwd": cwd or sandbox.workdir,
            "env": {**sandbox.env, **(env or {})},
            "timeout_s": timeout_s,
            "user": str(user) if user is not None else sandbox.image.user,
            "stdin_bytes": len(stdin),
            "max_output_bytes": max_output_bytes or self._output_bytes,
        }
        try:
            head, stdout, stderr = await _ask(sandbox.places.control, request, stdin)
        except (OSError, ValueError, KeyError, asyncio.IncompleteReadError) as error:
            why = "the memory of the sandbox was used up" if _is_out_of_memory(sandbox) else f"{error!r}"
            return SandboxExecResult("", f"the sandbox ended: {why}", NO_EXIT_CODE, "sandbox")
        ending = head["ending"]
        is_killed = ending != "exited"
        return SandboxExecResult(
            stdout.decode(errors="surrogateescape" if max_output_bytes else "replace"),
            stderr.decode(errors="replace"),
            NO_EXIT_CODE if is_killed else int(head["status"]),
            ending if is_killed else None,
        )

    async def upload_file(self, handle: SandboxHandle, source_path: Path, target_path: str) -> None:
        """Copy a file of this machine into the sandbox. Raises OSError if it cannot be written."""
        data = await asyncio.to_thread(source_path.read_bytes)
        script = 'mkdir -p -- "$(dirname -- "$0")" && cat > "$0"'
        await self._transfer(handle, script, target_path, data)

    async def download_file(self, handle: SandboxHandle, source_path: str, target_path: Path) -> None:
        """Copy a file out of the sandbox. It is read inside, so that a symbolic link cannot lead outside."""
        data = await self._transfer(handle, 'cat -- "$0"', source_path)
        target_path.parent.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(target_path.write_bytes, data)

    async def _transfer(self, handle: SandboxHandle, script: str, path: str, data: bytes = b"") -> bytes:
        program = ["/bin/sh", "-c", script, path]
        done = await self.run(
            _require_open(handle),
            program,
            timeout_s=self._default_timeout_s,
            user="root",
            stdin=data,
            max_output_bytes=64 * self._output_bytes,
        )
        if done.return_code != 0:
            raise OSError(f"{path} in the sandbox: {(done.stderr or '').strip() or done.error_type}")
        return (done.stdout or "").encode(errors="surrogateescape")

    async def status(self, handle: SandboxHandle) -> SandboxStatus:
        sandbox: RootlessSandbox = handle.raw
        is_running = sandbox.is_open and (sandbox.process is None or sandbox.process.returncode is None)
        return SandboxStatus.RUNNING if is_running else SandboxStatus.STOPPED

    async def serialize_handle(self, handle: SandboxHandle, *, scope: str | None = None) -> dict[str, Any]:
        """Return a description for `connect`: the image, and the sandbox's folder of this machine."""
        sandbox: RootlessSandbox = handle.raw
        about = {
            "env": dict(sandbox.env),
            "workdir": sandbox.workdir,
            "layers": list(sandbox.image.layers),
            "user": sandbox.image.user,
            "bridge": {
                "folder": str(sandbox.places.bridge),
                "seen_as": str(BRIDGE),
                "owner": self.store.owner,
            },
        }
        return {"folder": str(sandbox.places.folder), "base": sandbox.image.base, **about}

    async def connect(self, descriptor: Mapping[str, Any]) -> SandboxHandle:
        """Connect to a running sandbox of this machine. Its owner closes it."""
        places = SandboxPlaces(Path(descriptor["folder"]), None)
        image = Image(tuple(descriptor["layers"]), descriptor["base"], user=descriptor.get("user"))
        sandbox = RootlessSandbox(places, image, descriptor["env"], descriptor["workdir"])
        return SandboxHandle(places.folder.name, self.name, sandbox)

    async def close(self, handle: SandboxHandle) -> None:
        """End all processes of a sandbox and delete its files. Idempotent."""
        await self._end(handle.raw)

    async def end_processes(self, sandbox: RootlessSandbox) -> None:
        """End all processes of a sandbox; its files stay."""
        sandbox.is_open = False
        process = sandbox.process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if sandbox.memory is not None:
            await asyncio.to_thread(sandbox.memory.remove)

    async def _end(self, sandbox: RootlessSandbox) -> None:
        await self.end_processes(sandbox)
        if sandbox.places.lock is not None:
            await asyncio.to_thread(sandbox.places.remove)

    async def aclose(self) -> None:
        """Do nothing: the provider holds no resources of its own."""


async def _ask(
    control: Path, request: Mapping[str, Any], stdin: bytes
) -> tuple[dict[str, Any], bytes, bytes]:
    reader, writer = await asyncio.open_unix_connection(control, limit=_LONGEST_HEAD)
    try:
        writer.write(json.dumps(request).encode() + b"\n" + stdin)
        await writer.drain()
        head = json.loads(await reader.readline())
        texts = [await reader.readexactly(int(size)) for size in head["bytes"]]
        return head, texts[0], texts[1]
    finally:
        writer.close()


def _is_out_of_memory(sandbox: RootlessSandbox) -> bool:
    return sandbox.memory is not None and sandbox.memory.is_exceeded()


def _refuse(spec: SandboxSpec, resources: SandboxResources, options: Mapping[str, Any]) -> None:
    wanted = {
        "entrypoint": bool(spec.entrypoint),
        "ports": bool(spec.ports),
        "resources.gpu": bool(resources.gpu),
        "resources.disk_gib": bool(resources.disk_gib),
        "resources.cpu": bool(resources.cpu) and not can_limit_cpus(),
        **{f"provider_options.{name}": True for name in options},
    }
    refused = [name for name, is_wanted in wanted.items() if is_wanted]
    if refused:
        raise SandboxCreateError(
            f"the sandbox provider `rootless` does not support: {', '.join(refused)}", retryable=False
        )


def _require_open(handle: SandboxHandle) -> RootlessSandbox:
    sandbox: RootlessSandbox = handle.raw
    if not sandbox.is_open:
        raise RuntimeError(f"the sandbox {handle.sandbox_id} was closed")
    return sandbox
