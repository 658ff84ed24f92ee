"""Sandboxes without root and without a container engine: one user, no network, services that go on."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.isolation.memory import can_limit_cpus
from nemo_gym.sandbox import AsyncSandbox, SandboxCreateError, SandboxResources, SandboxSpec
from nemo_gym.sandbox.providers.rootless import provider as provider_module
from nemo_gym.sandbox.providers.rootless.provider import RootlessProvider
from nemo_gym.sandbox.providers.rootless.store import Image
from tests.sandbox.rootless_images import HOST_IMAGE, READABLE, host_provider, needs_rootless

pytestmark = needs_rootless
SPEC = SandboxSpec(
    image=HOST_IMAGE, provider_options={"readable": READABLE}, env={"GIVEN": "yes"}, workdir="/tmp"
)


@pytest.fixture(scope="module")
def provider() -> Iterator[RootlessProvider]:
    with host_provider() as made:
        yield made


@pytest.fixture
async def sandbox(provider: RootlessProvider) -> AsyncIterator[AsyncSandbox]:
    async with AsyncSandbox(provider, SPEC, owns_provider=False) as started:
        yield await started.start()


async def say(sandbox: AsyncSandbox, command: str, **options: float | str) -> str:
    done = await sandbox.exec(command, **options)  # type: ignore[arg-type]
    assert done.error_type is None, done
    return (done.stdout or "").strip()


async def test_a_command_has_its_output_errors_status_folder_and_variables(sandbox: AsyncSandbox) -> None:
    done = await sandbox.exec('echo "$GIVEN $OWN $PWD"; echo wrong >&2; exit 3', env={"OWN": "too"})
    assert (done.stdout, done.stderr, done.return_code) == ("yes too /tmp\n", "wrong\n", 3)


async def test_the_only_user_is_root_in_the_sandbox_and_nobody_outside(sandbox: AsyncSandbox) -> None:
    assert await say(sandbox, "id -u") == "0"
    mapped = (await say(sandbox, "cat /proc/self/uid_map")).split()
    assert mapped[::2] == ["0", "1"]
    assert "no" in await say(sandbox, "mount -t tmpfs none /tmp 2>/dev/null && echo yes || echo no")
    assert "no" in await say(sandbox, "unshare --user true 2>/dev/null && echo yes || echo no")


async def test_calls_that_change_owners_and_users_do_nothing_and_succeed(sandbox: AsyncSandbox) -> None:
    assert await say(sandbox, "touch /tmp/a && chown 1000:1000 /tmp/a && stat -c %u /tmp/a") == "0"
    assert await say(sandbox, "setpriv --reuid 1000 --clear-groups --regid 1000 id -u") == "0"


async def test_another_user_has_its_name_and_home(sandbox: AsyncSandbox) -> None:
    assert await say(sandbox, 'echo "$USER $HOME"', user="worker") == "worker /home/worker"
    assert await say(sandbox, 'echo "$USER $HOME"', user="1000") == "worker /home/worker"
    done = await sandbox.exec("true", user="missing")
    assert done.return_code == 126
    assert "no user 'missing'" in (done.stderr or "")


async def test_there_is_no_network_but_the_loopback(sandbox: AsyncSandbox) -> None:
    assert await say(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '") == "lo"


async def test_a_service_goes_on_after_its_command_and_answers_the_next(sandbox: AsyncSandbox) -> None:
    serve = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000, bind='127.0.0.1')"
    await say(sandbox, f'cd /etc && (/usr/bin/python3 -c "{serve}" > /tmp/log 2>&1 &)')
    fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/passwd').read().decode())"
    asked = f'for i in $(seq 200); do /usr/bin/python3 -c "{fetch}" 2>/dev/null && break; sleep 0.1; done'
    assert "worker" in await say(sandbox, asked, timeout_s=60)


async def test_output_of_what_a_command_leaves_behind_blocks_nothing(sandbox: AsyncSandbox) -> None:
    assert await say(sandbox, "(sleep 600; echo late) & echo now") == "now"


async def test_a_command_ends_at_its_limits_with_its_processes(sandbox: AsyncSandbox) -> None:
    done = await sandbox.exec("sleep 700 & sleep 700", timeout_s=0.5)
    assert (done.error_type, done.return_code) == ("timeout", 125)
    assert "sleep 700" not in await say(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    done = await sandbox.exec("head -c 40000000 /dev/zero")
    assert done.error_type == "output_exceeded"


async def test_no_command_ends_the_sandbox(sandbox: AsyncSandbox) -> None:
    await sandbox.exec("kill -9 1; kill -INT 1; kill -9 -1", timeout_s=20)
    assert await say(sandbox, "echo alive") == "alive"


async def wait_for(sandbox: AsyncSandbox, pattern: str) -> None:
    """Wait until a process has, or with `!` no process has, a command line."""
    look = pattern.replace("=", "pgrep -f ")
    command = f"for i in $(seq 600); do {look} > /dev/null && exit; sleep 0.05; done; exit 1"
    assert (await sandbox.exec(command, timeout_s=60)).return_code == 0


async def test_a_cancelled_command_ends(sandbox: AsyncSandbox) -> None:
    running = asyncio.create_task(sandbox.exec("sleep 54321", timeout_s=600))
    await wait_for(sandbox, "=[5]4321")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_for(sandbox, "! =[5]4321")


async def test_the_entrypoint_of_an_image_runs_beside_its_commands(provider: RootlessProvider) -> None:
    entrypoint = ("/bin/sh", "-c", 'cd /tmp && echo "$0 $1" > begun && exec "$0" "$1"')
    provider.store.add("begins", Image((HOST_IMAGE,), "this machine", entrypoint=entrypoint))
    spec = SandboxSpec(image="begins", provider_options={"readable": READABLE})
    async with await AsyncSandbox(provider, spec, owns_provider=False).start() as sandbox:
        await wait_for(sandbox, "=[i]nfinity")
        assert await say(sandbox, "cat /tmp/begun") == "sleep infinity"


async def test_files_go_in_and_out_and_a_link_leads_nowhere_outside(
    sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    content = os.urandom(300_000)
    (tmp_path / "in").write_bytes(content)
    await sandbox.upload(tmp_path / "in", "/data/deep/file")
    await sandbox.download("/data/deep/file", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == content
    await say(sandbox, f"ln -s {tmp_path}/in /data/link")
    with pytest.raises(OSError, match="/data/link"):
        await sandbox.download("/data/link", tmp_path / "stolen")


async def test_another_process_connects_to_a_sandbox_by_its_description(
    sandbox: AsyncSandbox, provider: RootlessProvider
) -> None:
    await say(sandbox, "echo here > /tmp/mark")
    other = await AsyncSandbox.connect(await sandbox.serialize(), provider=provider, owns_provider=False)
    assert await say(other, "cat /tmp/mark; echo $GIVEN") == "here\nyes"
    await other.disconnect()
    assert await say(sandbox, "cat /tmp/mark") == "here"


async def test_what_cannot_be_honoured_is_refused_by_name(provider: RootlessProvider) -> None:
    spec = SandboxSpec(image=HOST_IMAGE, ports=(80,), entrypoint=["x"], provider_options={"volumes": []})
    with pytest.raises(SandboxCreateError, match=r"entrypoint, ports, provider_options\.volumes"):
        await provider.create(spec)
    with pytest.raises(SandboxCreateError, match="the image 'none' is not in"):
        await provider.create(SandboxSpec(image="none"))


async def test_all_commands_together_get_the_cpus_that_are_asked_for(provider: RootlessProvider) -> None:
    if not can_limit_cpus():
        pytest.skip("this machine has no writable cgroup that limits CPUs")
    handle = await provider.create(replace(SPEC, resources=SandboxResources(cpu=0.25)))
    try:
        spin = "timeout 1 sh -c 'while :; do :; done'"
        await provider.exec(handle, f"{spin} & {spin}")
        statistics = [Path(file).with_name("cpu.stat") for file in handle.raw.memory.processes_files]
        lines = [
            line.split() for file in statistics if file.exists() for line in file.read_text().splitlines()
        ]
        assert any(name == "nr_throttled" and int(value) > 0 for name, value in lines)
    finally:
        await provider.close(handle)


async def test_cpus_are_refused_where_nothing_limits_them(
    provider: RootlessProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_module, "can_limit_cpus", lambda: False)
    with pytest.raises(SandboxCreateError, match=r"resources\.cpu"):
        await provider.create(replace(SPEC, resources=SandboxResources(cpu=2)))


async def test_a_stopped_sandbox_leaves_no_files(provider: RootlessProvider) -> None:
    async with AsyncSandbox(provider, SPEC, owns_provider=False) as started:
        await started.start()
        await say(started, "mkdir -p /tmp/a/b && touch /tmp/a/b/c && chmod 000 /tmp/a && rm /etc/passwd")
    assert list((provider.store.folder / "sandboxes").iterdir()) == []


async def test_a_sandbox_begins_with_the_files_of_a_snapshot(
    provider: RootlessProvider, sandbox: AsyncSandbox, tmp_path: Path
) -> None:
    await say(sandbox, "mkdir -p /root/a/b && echo first > /root/a/b/c && ln -s c /root/a/b/d")
    await say(
        sandbox, "rm /etc/passwd && rmdir /var && mkdir /var && chmod 000 /root/a/b/c && mkfifo /tmp/pipe"
    )
    await say(sandbox, "chmod 4755 /root/a/b && touch -d @1000000000 /root/a")
    about = (
        "stat -c '%a %Y %F' /root/a /root/a/b /root/a/b/c /root/a/b/d /tmp/pipe; ls -A /var; cat /root/a/b/d"
    )
    said = await say(sandbox, about)
    assert await sandbox.snapshot(tmp_path / "taken")
    assert (tmp_path / "taken").stat().st_mode & 0o077 == 0
    await say(sandbox, "echo later > /root/a/b/c")
    for _ in range(2):
        async with AsyncSandbox(provider, SPEC, owns_provider=False) as restored:
            await restored.start(snapshot=tmp_path / "taken")
            assert await say(restored, about) == said
            assert await say(restored, "ls /etc/passwd || echo gone") == "gone"
            assert await say(restored, "echo own > /root/a/b/c; cat /root/a/b/c") == "own"
    assert await say(sandbox, "cat /root/a/b/c") == "later"


async def test_a_sandbox_whose_processes_go_on_has_no_snapshot(sandbox: AsyncSandbox, tmp_path: Path) -> None:
    await say(sandbox, "(sleep 600 > /dev/null 2>&1 &)")
    assert not await sandbox.snapshot(tmp_path / "taken")
    assert not (tmp_path / "taken").exists()
    await say(sandbox, "pkill sleep; until [ $(ls -d /proc/[0-9]* | wc -l) -lt 5 ]; do sleep 0.1; done")
    assert await sandbox.snapshot(tmp_path / "taken")


async def test_a_damaged_snapshot_starts_no_sandbox(provider: RootlessProvider, tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"no archive" * 100)
    for name in ("damaged", "missing"):
        with pytest.raises(SandboxCreateError, match=f"the snapshot .*{name} cannot be restored"):
            await AsyncSandbox(provider, SPEC, owns_provider=False).start(snapshot=tmp_path / name)
    assert list((provider.store.folder / "sandboxes").iterdir()) == []


def test_without_a_base_system_no_sandbox_can_run() -> None:
    with host_provider() as provider:
        options = {"store": str(provider.store.folder)}
        assert RootlessProvider.find_missing(options) is None
        shutil.rmtree(provider.store.folder)
        missing = RootlessProvider.find_missing(options)
    assert (
        missing
        == f"{options['store']} has no base system, which `gym env prefetch` installs once, with network"
    )
