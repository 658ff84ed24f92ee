"""Commands, files and terminals in containers, on both command lines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nemo_gym.sandbox import SandboxExecResult
from nemo_gym.sandbox.providers.containers import ContainerProvider, ExecContext
from tests.sandbox.container_engines import sandbox_of


def command_lines() -> list[bytes]:
    """The command lines of all processes of this machine."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes())
        except OSError:
            continue
    return found


async def test_values_of_variables_are_on_no_command_line(engine: str) -> None:
    async with sandbox_of(engine, env={"START": "secret-1"}) as sandbox:
        await sandbox.start()
        running = asyncio.create_task(
            sandbox.exec("while [ ! -e /tmp/go ]; do sleep 0.05; done", env={"RUN": "secret-2"})
        )
        await sandbox.exec("true")
        lines = command_lines()
        await sandbox.exec("touch /tmp/go")
        await running
    assert any(b"/tmp/go" in line for line in lines)
    assert not any(b"secret-" in line for line in lines)


async def test_a_command_over_its_timeout_or_its_output_is_a_result(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_gym.sandbox.providers.command_line.MAX_OUTPUT_BYTES", 100_000)
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        late = await sandbox.exec("echo started; sleep 60", timeout_s=2)
        assert (late.stdout, late.return_code, late.error_type) == ("started\n", 125, "timeout")
        much = await sandbox.exec("yes")
        assert (much.return_code, much.error_type) == (125, "output_exceeded")
        assert (await sandbox.exec("echo again")).stdout == "again\n"


async def test_a_program_runs_without_a_shell_and_with_a_bound_of_its_own(engine: str) -> None:
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        provider, handle = sandbox._provider, sandbox._require_handle()
        assert isinstance(provider, ContainerProvider)
        context = ExecContext(cwd="/tmp", env={"A": "x"}, user="1000:1000", has_stdin=True)
        program = ["sh", "-c", 'pwd; id -u; echo "$A" "$0"; cat', "$HOME; yes"]
        done = await provider.run(handle, program, context, timeout_s=30, stdin=b"in")
        assert done == SandboxExecResult("/tmp\n1000\nx $HOME; yes\nin", "", 0)
        much = await provider.run(handle, ["yes"], ExecContext(), timeout_s=30, max_output_bytes=1000)
        assert (much.return_code, much.error_type) == (125, "output_exceeded")


async def test_files_go_in_and_out_and_links_lead_nowhere(engine: str, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "in").write_bytes(content)
    async with sandbox_of(engine, files={"/data/hello.txt": "hello ü"}) as sandbox:
        await sandbox.start()
        assert (await sandbox.exec("cat /data/hello.txt")).stdout == "hello ü"
        await sandbox.upload(tmp_path / "in", "/new folder/a file")
        await sandbox.download("/new folder/a file", tmp_path / "below" / "out")
        assert (tmp_path / "below" / "out").read_bytes() == content
        await sandbox.exec("ln -s /etc/passwd /link")
        await sandbox.download("/link", tmp_path / "link")
        assert not (tmp_path / "link").is_symlink()
        assert "worker" in (tmp_path / "link").read_text()
        with pytest.raises(OSError, match="missing"):
            await sandbox.download("/missing", tmp_path / "missing")
    assert not (tmp_path / "missing").exists()


async def test_a_command_that_prints_the_words_of_the_engine_is_no_engine_failure(engine: str) -> None:
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        done = await sandbox.exec("echo no such container >&2; exit 1")
        assert (done.return_code, done.error_type) == (1, None)


async def test_a_terminal_is_one_and_pipes_are_none(engine: str) -> None:
    async with sandbox_of(engine, workdir="/srv") as sandbox:
        await sandbox.start()
        sized = 'until [ "$(stty size 2>/dev/null)" = "30 100" ]; do sleep 0.1; done; pwd; exit 4'
        in_terminal = await sandbox.pty.exec(sized, rows=30, cols=100, env={"A": "1"})
        assert (in_terminal.stdout, in_terminal.return_code) == ("/srv\r\n", 4)
        in_pipes = await sandbox.pty.exec("echo out; echo err >&2; tty || true", pty=False)
        assert (in_pipes.stdout or "").startswith("out\n")
        assert (in_pipes.stderr or "").startswith("err\n")


async def test_a_signal_reaches_the_program_of_a_terminal(engine: str) -> None:
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        script = "trap 'echo caught; sleep 0.5; exit 7' TERM; echo ready; while true; do sleep 0.05; done"
        async with await sandbox.pty.create(script) as session:
            assert await session.read(timeout_s=30) == b"ready\r\n"
            await session.send_signal("SIGTERM")
            assert b"".join([chunk async for chunk in session]).endswith(b"caught\r\n")
            assert await session.wait_exit(timeout_s=30) == 7


async def test_a_closed_terminal_leaves_no_process(engine: str) -> None:
    async with sandbox_of(engine) as sandbox:
        await sandbox.start()
        session = await sandbox.pty.create("echo ready; sleep 987654")
        assert await session.read(timeout_s=30) == b"ready\r\n"
        await session.close()
        assert not any(line.startswith(b"sleep\x00987654") for line in command_lines())
