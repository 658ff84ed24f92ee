"""An environment class for Harbor's own runner on bubblewrap, independent of this gym: it runs in Harbor's environment.

A sandbox is a folder laid over a small root in which /usr is this machine's. `NEMO_GYM_LOWER` names the small root, and
`NEMO_GYM_UID` the user that owns it, for a test that runs as root.
"""

import asyncio
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

_MOUNT = (
    'mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work,userxattr" "$2/merged" && '
    'm="$2/merged" && shift 2 && exec bwrap --bind "$m" / --ro-bind /usr /usr '
    "--ro-bind /etc/alternatives /etc/alternatives "
    '--proc /proc --dev /dev --unshare-pid --unshare-net --die-with-parent "$@"'
)


class BubblewrapEnvironment(BaseEnvironment):
    @staticmethod
    def type() -> str:
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="harbor_"))
        self.folder.chmod(0o755)
        for name in ("upper", "work", "merged"):
            (self.folder / name).mkdir()
            if uid := os.environ.get("NEMO_GYM_UID"):
                os.chown(self.folder / name, int(uid), int(uid))
        await self.exec(
            "mkdir -p /logs/agent /logs/verifier /logs/artifacts; chmod 777 /logs/*", cwd="/", user="root"
        )

    async def stop(self, delete: bool) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None) -> ExecResult:
        done = await self._run(["/bin/bash", "-c", command], cwd, self._merge_env(env), timeout_sec)
        return ExecResult(stdout=done[0].decode(), stderr=done[1].decode(), return_code=done[2])

    async def _run(
        self, program, cwd=None, env=None, timeout_sec=None, stdin=b""
    ) -> tuple[bytes, bytes, int]:
        uid = os.environ.get("NEMO_GYM_UID")
        user = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []
        variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", **(env or {})}
        settings = [part for name, value in variables.items() for part in ("--setenv", name, value)]
        place = cwd or self.task_env_config.workdir or "/"
        process = await asyncio.create_subprocess_exec(
            *user,
            *("unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", _MOUNT, "mount"),
            *(
                os.environ["NEMO_GYM_LOWER"],
                str(self.folder),
                "--clearenv",
                *settings,
                "--chdir",
                place,
                "--",
            ),
            *program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(timeout_sec):
                out, err = await process.communicate(stdin)
        except TimeoutError as error:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds") from error
        finally:
            if process.returncode is None:
                process.kill()
        return out, err, process.returncode or 0

    async def upload_file(self, source_path, target_path) -> None:
        script = 'mkdir -p "$(dirname "$0")" && cat > "$0"'
        await self._run(
            ["/bin/sh", "-c", script, str(target_path)], "/", stdin=Path(source_path).read_bytes()
        )

    async def upload_dir(self, source_dir, target_dir) -> None:
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                tar.add(source_dir, ".")
            file.seek(0)
            script = 'mkdir -p "$0" && tar -xf - --no-same-owner -C "$0"'
            done = await self._run(["/bin/sh", "-c", script, str(target_dir)], "/", stdin=file.read())
        if done[2]:
            raise RuntimeError(done[1].decode())

    async def download_file(self, source_path, target_path) -> None:
        out, err, code = await self._run(["cat", str(source_path)], "/")
        if code:
            raise RuntimeError(err.decode())
        Path(target_path).write_bytes(out)

    async def download_dir(self, source_dir, target_dir) -> None:
        out, err, code = await self._run(["tar", "-cf", "-", "-C", str(source_dir), "."], "/")
        if code:
            raise RuntimeError(err.decode())
        with tempfile.TemporaryFile() as file:
            file.write(out)
            file.seek(0)
            with tarfile.open(fileobj=file) as tar:
                tar.extractall(target_dir, filter="data")
