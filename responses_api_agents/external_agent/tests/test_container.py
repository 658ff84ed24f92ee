"""Agents in containers: the promises of bubblewrap hold, and nothing is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.config.current import configured
from nemo_gym.failures import ConfigError
from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import SandboxLimits
from responses_api_agents.external_agent.app import ExternalAgentConfig
from responses_api_agents.external_agent.container import broken_promises
from responses_api_agents.external_agent.tests.agents import AgentGym, folder_row, names_in, said_in
from responses_api_agents.external_agent.tests.containers import contained, containers_of
from tests.sandbox.container_engines import IMAGE
from tests.sandbox.providers.test_containers import command_lines
from tests.serving.environments import text
from tests.waiting import until

pytestmark = pytest.mark.long_file


async def played(gym: AgentGym, row: dict[str, Any] | None = None) -> dict[str, Any]:
    async with gym.running():
        return await gym.run("agent", row or folder_row())


async def report_of(gym: AgentGym, row: dict[str, Any] | None = None) -> Any:
    """Run an agent that prints one JSON value, and return the value."""
    return json.loads(said_in(await played(gym, row)))


@pytest.mark.parametrize("name", ["podman", "docker"])
async def test_an_agent_plays_in_a_container_of_which_nothing_is_left(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = request.getfixturevalue(name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    program = """
open("src/b.txt", "w").write(open("src/a.txt").read().upper() + sys.stdin.read())
ask()
print("done by", os.getuid() != 0, os.environ["MARK"], os.environ["PATH"])
sys.exit(0)
"""
    gym = contained(engine, program, [text("")], stdin="!", environment={"MARK": "{model}"})
    async with gym.running():
        row = await gym.run("agent", folder_row({"src/a.txt": "text"}, "src/*"))
        assert containers_of(engine) == []
    assert row["folder_files"] == {"src/a.txt": "text", "src/b.txt": "TEXT!"}
    assert said_in(row).startswith("done by True policy /")
    assert (row["_ng_end_reason"], row["external_agent"]["isolation"]) == ("final_answer", engine)
    assert names_in(tmp_path) == []


async def test_nothing_answers_but_the_gateway_and_its_paths(podman: str) -> None:
    listener = socket.create_server(("0.0.0.0", 0))
    gym = contained(podman, "", 0.5, 0.5)
    async with gym.running(over_http=True):
        ports = [server.config.port for server in gym.servers.values()]
        ports += [listener.getsockname()[1], 11000, 22, 53]
        program = f"""
import stat
def reaches(host, port):
    try:
        socket.create_connection((host, port), 1).close()
        return True
    except OSError:
        return False
hosts = ["127.0.0.1", "127.0.0.2", "::1", {socket.gethostbyname(socket.gethostname())!r}, "1.1.1.1", "example.com",
         "host.containers.internal", "host.docker.internal"]
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
paths = ["/verify", "/rollouts", "/ng-rollouts/other", "/ng-rollout/other/v1/responses", "/server_instances", "/mcp"]
sockets = [os.path.join(folder, name) for top in ("/attempt", "/tmp", "/run", "/var")
           for folder, _, names in os.walk(top) for name in names
           if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)]
print(json.dumps([[host, port] for host in hosts for port in {ports} if reaches(host, port)]
    + [interfaces, [status_of(path) for path in paths], status_of("/v1/responses", "ngr_other"), sockets, ask()]))
"""
        command = gym.agent.config.command
        command[-1] += program
        rows = await asyncio.gather(
            *(gym.run("agent", folder_row() | {"_ng_task_index": n}) for n in range(2))
        )
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()
    for row in rows:
        *reached, interfaces, refused, other_key, sockets, own_key = json.loads(said_in(row))
        assert (reached, interfaces, refused, other_key, own_key) == ([], ["lo"], [404] * 6, 401, 200)
        assert sockets == ["/attempt/gateway"]


async def test_an_agent_has_no_privileges_and_writes_only_to_its_folder_and_tmp(podman: str) -> None:
    program = """
def can_write(folder):
    try:
        open(folder + "/x", "w").close()
        return True
    except OSError:
        return False
ask()
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
folders = ("/", "/etc", "/usr", "/.nemo_gym", "/root", "/var", "/bin", "/proc", "/sys", "/dev")
kills = []
for pid in {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid(), os.getppid()}:
    try:
        os.kill(pid, 9)
        kills.append("killed")
    except OSError as error:
        kills.append(type(error).__name__)
print(json.dumps([[name for name in folders if can_write(name)], can_write("/tmp"), can_write("/attempt/work"),
                  [status[name].strip() for name in ("NoNewPrivs", "CapEff", "CapBnd")], sorted(set(kills))]))
"""
    none = "0" * 16
    found = await report_of(contained(podman, program, [text("")]))
    assert found == [[], True, True, ["1", none, none], ["PermissionError"]]


@pytest.mark.parametrize(
    ("program", "options", "reason"),
    [
        ("ask(); print('so far', flush=True); time.sleep(60)", {"timeout_s": 5}, "timed_out"),
        ("ask(); kept = [bytearray(1 << 20) for _ in range(500)]", {"memory_mib": 128}, "resource_limit"),
        ("ask()\nwhile True: print('x' * 1000)", {"max_output_mib": 1}, "resource_limit"),
        (
            "ask()\nfor n in range(10000): open(str(n), 'wb').write(b'x' * (1 << 20))\ntime.sleep(60)",
            {"max_folder_mib": 8},
            "resource_limit",
        ),
        ("ask(); sys.exit(3)", {}, "agent_exited"),
    ],
    ids=["time", "memory", "output", "folder", "status"],
)
async def test_an_agent_over_a_bound_is_ended_and_verified(
    podman: str, program: str, options: dict[str, Any], reason: str
) -> None:
    row = await played(contained(podman, program, [text("")], **options))
    assert "oom" not in names_in(Path.cwd())
    assert (row["_ng_outcome"], row["_ng_end_reason"], row["reward"]) == ("truncated", reason, 0.0)
    assert len(said_in(row)) <= MIB
    assert ("so far" in said_in(row)) == (reason == "timed_out")
    assert containers_of(podman) == []


async def test_processes_are_bounded_and_end_with_the_attempt(podman: str) -> None:
    program = """
ask()
count = 0
try:
    while count < 200 and os.fork():
        count += 1
    else:
        if count < 200:
            time.sleep(987.654)
except OSError:
    pass
print(count)
sys.stdout.flush()
os._exit(0)
"""
    assert await report_of(contained(podman, program, [text("")], max_processes=64)) < 64
    assert not any(b"987.654" in line for line in command_lines())


async def test_the_key_is_on_no_command_line(podman: str) -> None:
    gym = contained(podman, "time.sleep(3); ask()", [text("")])
    lines: list[bytes] = []

    def is_seen() -> bool:
        lines[:] = command_lines()
        # The engine's client, the forwarder and the agent.
        return sum(b"status_of" in line for line in lines) >= 3

    async with gym.running():
        running = asyncio.create_task(gym.run("agent", folder_row()))
        await until(is_seen)
        row = await running
    assert not any(b"ngr_" in line for line in lines)
    assert row["external_agent"]["calls"] == 1


async def test_an_attempt_that_is_given_up_leaves_no_container(podman: str) -> None:
    gym = contained(podman, "ask(); time.sleep(600)", [text("")])
    async with gym.running():
        running = asyncio.create_task(gym.run("agent", folder_row()))
        await until(lambda: gym.model.requests)
        assert len(containers_of(podman)) == 1
        running.cancel()
        await asyncio.wait([running])
        await until(lambda: containers_of(podman) == [])


KILLED_GYM = """
import asyncio
from pathlib import Path
from responses_api_agents.external_agent.tests.agents import AgentGym, folder_row
from responses_api_agents.external_agent.tests.containers import contained
from tests.serving.environments import text

async def main():
    AgentGym.records = Path({records!r})
    gym = contained("podman", "ask(); time.sleep(600)", [text("")])
    async with gym.running():
        running = asyncio.create_task(gym.run("agent", folder_row()))
        while not gym.model.requests:
            await asyncio.sleep(0.05)
        print("playing", flush=True)
        await running

asyncio.run(main())
"""


async def test_a_gym_that_is_killed_leaves_no_container(podman: str, tmp_path: Path) -> None:
    program = KILLED_GYM.format(records=str(tmp_path))
    gym = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, cwd=PARENT_DIR, start_new_session=True
    )
    assert gym.stdout is not None
    assert await gym.stdout.readline() == b"playing\n"
    assert len(containers_of(podman)) == 1
    os.killpg(gym.pid, signal.SIGKILL)
    await gym.wait()
    await until(lambda: containers_of(podman) == [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sandbox_image": "localhost/no-such-image:1"}, "no-such-image"),
        ({"provider_options": {"create": {"extra_run_args": ["--cap-add", "NET_RAW"]}}}, "capabilities"),
        ({"provider_options": {"create": {"netwrk": "none"}}}, "no netwrk"),
    ],
)
async def test_a_container_that_does_not_keep_its_promises_is_refused_at_the_start(
    podman: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        async with contained(podman, "", **options).running():
            pass
    assert containers_of(podman) == []


KEPT = {
    "user": 1000,
    "capabilities": [],
    "no_new_privileges": True,
    "interfaces": ["lo"],
    "memory": str(64 * MIB),
    "processes": "10",
    "oom_kills": 0,
    "is_read_only": True,
    "has_folder": True,
    "gateway": "the gateway's socket",
}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"user": 0}, "would be root"),
        ({"capabilities": ["CapBnd"]}, "capabilities"),
        ({"no_new_privileges": False}, "capabilities"),
        ({"interfaces": ["lo", "eth0"]}, "network (lo, eth0)"),
        ({"memory": "max"}, "memory of containers is not limited (max)"),
        ({"memory": ""}, "no controller"),
        ({"processes": "11"}, "processes of containers are not limited (11)"),
        ({"is_read_only": False}, "root of containers"),
        ({"has_folder": False}, "working folder"),
        ({"gateway": "refused"}, "socket (refused)"),
    ],
)
def test_each_broken_promise_is_named(facts: dict[str, Any], message: str) -> None:
    limits = SandboxLimits(memory_bytes=64 * MIB, processes=10)
    assert list(broken_promises(KEPT, limits)) == []
    (broken,) = broken_promises({**KEPT, **facts}, limits)
    assert message in broken


GIVEN = {
    "host": "",
    "port": 0,
    "entrypoint": "app.py",
    "name": "agent",
    "command": ["agent"],
    "resources_server": {"type": "resources_servers", "name": "env"},
    "model_server": {"type": "responses_api_models", "name": "model"},
}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sandbox_provider": {"podman": {}}}, "belong together"),
        ({"sandbox_image": IMAGE}, "belong together"),
        ({"sandbox_provider": {"local": {}}, "sandbox_image": IMAGE}, "docker or podman here, not local"),
        ({"sandbox_provider": {"podman": {}}, "sandbox_image": IMAGE, "readable": ["/a:b"]}, "colon"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    ExternalAgentConfig.model_validate(GIVEN)
    with pytest.raises(ValueError, match=message):
        ExternalAgentConfig.model_validate({**GIVEN, **options})


def test_a_block_of_another_provider_is_refused_by_its_name() -> None:
    options = {**GIVEN, "sandbox_provider": "sandbox", "sandbox_image": IMAGE}
    with configured({"sandbox": {"docker": {}, "default_metadata": {"team": "gym"}}}):
        ExternalAgentConfig.model_validate(options)
    with configured({"sandbox": {"local": {}}}), pytest.raises(ValueError, match="not local"):
        ExternalAgentConfig.model_validate(options)
