"""The sandboxes of trials: images made of task folders, commands, and files in both directions.

Files leave a sandbox as a tar whose paths, links and sizes are checked before anything is written.
"""

from __future__ import annotations

import asyncio
import io
import shlex
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from nemo_gym.failures import VerifierError
from nemo_gym.sandbox import AsyncSandbox, SandboxExecResult, SandboxResources, SandboxSpec
from nemo_gym.sandbox.providers.protocols import SandboxProvider
from nemo_gym.sources.task_folders.ignoring import FileFilter, list_entries
from nemo_gym.sources.task_folders.requirements import ROOTLESS
from nemo_gym.sources.task_folders.settings import EnvironmentSettings

_SHORT_S = 120.0
_LONGEST_FILE = 1 << 20
_MOST_BYTES = 512 << 20
_PACKED = "/tmp/.nemo_gym_files.tar"


class TrialSandbox:
    """A sandbox with the folders and the user of a trial."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self.sandbox = sandbox

    async def exec(
        self,
        command: str,
        *,
        timeout_s: float | None = None,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> SandboxExecResult:
        """Run a command. Raises VerifierError if the sandbox is gone."""
        done = await self.sandbox.exec(
            command, timeout_s=timeout_s or _NO_LIMIT_S, user=user, env=dict(env or {})
        )
        if done.error_type == "sandbox":
            raise VerifierError(
                f"The sandbox of the task ended: {done.stderr}", code="sandbox_failed", retryable=True
            )
        return done

    async def _ask(self, command: str) -> SandboxExecResult:
        return await self.exec(command, timeout_s=_SHORT_S, user="root")

    async def require(self, command: str, purpose: str) -> None:
        """Run a command as root that has to succeed. Raises VerifierError."""
        done = await self._ask(command)
        if done.return_code != 0:
            said = f"{done.stderr}{done.stdout}".strip()[-500:]
            raise VerifierError(
                f"{purpose} failed: {said or done.error_type}", code="sandbox_failed", retryable=True
            )

    async def make_empty(self, folders: Sequence[str], *, is_open: bool = True) -> None:
        """Make folders that are empty, and by default open to every user."""
        quoted = " ".join(shlex.quote(folder) for folder in folders)
        clear = f'for f in {quoted}; do find "$f" -mindepth 1 -delete || exit 1; done'
        mode = f" && chmod 777 {quoted}" if is_open else ""
        await self.require(f"mkdir -p {quoted} && {clear}{mode}", "Emptying folders of the sandbox")

    async def put(self, files: Iterable[tuple[Path, str]], target: str) -> None:
        """Copy files, with their paths below `target`, into the sandbox."""
        packed = await asyncio.to_thread(_pack, files)
        await self._unpack(packed, target)

    async def put_folder(self, folder: Path, files: FileFilter, target: str) -> None:
        """Copy what counts of a folder of a task."""
        entries = [(path, path.relative_to(folder).as_posix()) for path in list_entries(folder, files)]
        if entries:
            await self.put(entries, target)

    async def _unpack(self, packed: bytes, target: str) -> None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(packed)
            file.flush()
            await self.sandbox.upload(file.name, _PACKED)
        place = shlex.quote(target)
        command = f"mkdir -p {place} && tar -xf {_PACKED} --no-same-owner -C {place}; s=$?; rm -f {_PACKED}; exit $s"
        await self.require(command, f"Copying files to {target}")

    async def put_tree(self, folder: Path, target: str) -> None:
        """Copy a folder of this machine that the gym itself made."""
        await self.put(await asyncio.to_thread(_list_tree, folder), target)

    async def get(self, source: str, target: Path, exclude: Sequence[str] = ()) -> str | None:
        """Copy a file or folder out of the sandbox to `target`; return its kind, or None if it is not there."""
        place = shlex.quote(source)
        if (await self._ask(f"test -d {place}")).return_code == 0:
            excluded = " ".join(f"--exclude={shlex.quote(pattern)}" for pattern in exclude)
            packing = f"tar -cf {_PACKED} {excluded} -C {place} ."
        elif (await self._ask(f"test -f {place}")).return_code == 0:
            path = PurePosixPath(source)
            parent, name = shlex.quote(str(path.parent)), shlex.quote(path.name)
            packing = f"tar -chf {_PACKED} -C {parent} {name}"
        else:
            return None
        await self.require(packing, f"Packing {source}")
        with tempfile.NamedTemporaryFile() as file:
            await self.sandbox.download(_PACKED, file.name)
            await self._ask(f"rm -f {_PACKED}")
            is_folder = " ." in packing
            await asyncio.to_thread(_unpack_safely, Path(file.name), target, is_folder=is_folder)
        return "directory" if is_folder else "file"

    async def read(self, path: str) -> bytes | None:
        """Return the start of a file; None if it is not there."""
        place = shlex.quote(path)
        if (await self._ask(f"test -e {place}")).return_code != 0:
            return None
        done = await self._ask(f"head -c {_LONGEST_FILE} -- {place}")
        return (done.stdout or "").encode()

    async def stop(self) -> None:
        await self.sandbox.stop()


_NO_LIMIT_S = 7 * 24 * 3600.0


@dataclass
class Sandboxes:
    """Starts sandboxes of a provider for the environments of tasks."""

    provider: SandboxProvider
    has_network: bool = False
    """True if the lines of images may use the network."""
    packages: Sequence[str] = ()
    """Packages of the base system beside the default ones."""
    readable: Sequence[str] = ()
    """Folders of this machine that sandboxes show read-only: the installations of harnesses."""
    unlimited: Collection[str] = ()
    """Limits of tasks that are left to the provider."""
    _locks: dict[Path, asyncio.Lock] = field(default_factory=dict)

    async def start(
        self,
        settings: EnvironmentSettings,
        folder: Path,
        env: Mapping[str, str],
        snapshot: Path | None = None,
    ) -> TrialSandbox:
        """Start a sandbox of an environment, whose image is made if it is missing. Raises SandboxCreateError.

        `snapshot`: that of another sandbox of the environment, whose files it begins with.
        """
        image, options = await self.find_image(settings, folder)
        spec = SandboxSpec(
            image=image,
            workdir=settings.workdir,
            env=dict(env),
            resources=SandboxResources(
                cpu=None if "cpus" in self.unlimited else settings.cpus,
                memory_mib=None if "memory_mb" in self.unlimited else settings.memory_mb,
            ),
            provider_options=options,
        )
        sandbox = AsyncSandbox(self.provider, owns_provider=False)
        return TrialSandbox(await sandbox.start(spec, snapshot=snapshot))

    async def find_image(
        self, settings: EnvironmentSettings, folder: Path
    ) -> tuple[str | None, dict[str, object]]:
        """Return the image of an environment, which is made if it is missing, and options of its provider."""
        if self.provider.name != ROOTLESS:
            return settings.docker_image, {}
        from nemo_gym.sandbox.providers.rootless.build import BuildOptions, build_image
        from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider

        assert isinstance(self.provider, RootlessProvider)
        options = BuildOptions(self.has_network, settings.build_timeout_sec, self.packages)
        async with self._locks.setdefault(folder, asyncio.Lock()):
            image = await build_image(self.provider, folder, options)
        return image, {"readable": list(self.readable)}


def _list_tree(folder: Path) -> list[tuple[Path, str]]:
    return [(path, path.relative_to(folder).as_posix()) for path in sorted(folder.rglob("*"))]


def _pack(files: Iterable[tuple[Path, str]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=False) as tar:
        for path, name in files:
            info = tar.gettarinfo(path, name)
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if info.islnk():  # two names of one file
                info.type, info.size = tarfile.REGTYPE, path.stat().st_size
            if info.isreg():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            elif info.isdir() or info.issym():
                tar.addfile(info)
    return buffer.getvalue()


def _unpack_safely(packed: Path, target: Path, *, is_folder: bool) -> None:
    """Write the files, folders and inner links of an untrusted tar. Raises VerifierError if they are too large."""
    left = _MOST_BYTES
    root = target if is_folder else target.parent
    root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(packed) as tar:
        for member in tar:
            left -= member.size
            if left < 0:
                raise VerifierError("The artifacts of the task are too large.", code="artifacts_too_large")
            try:
                safe = tarfile.data_filter(member, str(root))
            except tarfile.FilterError:
                continue
            if safe is None or not (safe.isreg() or safe.isdir() or safe.issym()):
                continue
            if not is_folder:
                safe = safe.replace(name=target.name, deep=False)
            tar.extract(safe, root, filter="data")
