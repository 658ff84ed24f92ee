"""The provider apptainer, whose command line a script re-enacts: instances are folders, commands run on this machine.

The script knows the options of apptainer that the provider uses, and refuses all others as apptainer does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import (
    AsyncSandbox,
    SandboxCreateError,
    SandboxExecResult,
    SandboxSpec,
    SandboxStatus,
    create_provider,
    get_provider_class,
)
from nemo_gym.sandbox.providers.apptainer import ApptainerProvider

PROGRAM = """#!{python}
import json, os, shlex, subprocess, sys
from pathlib import Path

HERE = Path({folder!r})
WITH_VALUE = ("--bind", "--env-file", "--pwd", "--cpus", "--memory")
ALONE = ("--no-eval", "--fakeroot", "--nv", "--writable-tmpfs", "--json")

def fail(text):
    sys.exit(f"FATAL:   {{text}}")

def parse(words):
    options, rest = [], list(words)
    while rest and rest[0].startswith("--"):
        name = rest.pop(0)
        if name not in WITH_VALUE + ALONE:
            fail(f"unknown flag: {{name}}")
        options.append((name, rest.pop(0) if name in WITH_VALUE else None))
    return options, rest

def variables(options):
    found = {{}}
    for name, value in options:
        if name == "--env-file":
            script = f"set -a; . {{value}}; env -0"
            lines = subprocess.run(["env", "-i", "sh", "-c", script], capture_output=True, text=True).stdout
            found |= dict(line.split("=", 1) for line in lines.split(chr(0)) if line)
    return found

verb, words = sys.argv[1], sys.argv[2:]
if verb == "instance":
    verb, words = words[0], words[1:]
with (HERE / "calls").open("a") as log:
    log.write(json.dumps([verb, *words]) + chr(10))
options, rest = parse(words)
if verb == "version":
    print("1.3.0")
elif verb == "start":
    image, name = rest
    if "missing" in image:
        fail(f"could not open image {{image}}")
    (HERE / name).mkdir()
    subprocess.Popen(["sleep", "600"], start_new_session=True)  # keeps the caller's streams open
elif verb == "list":
    live = [entry.name for entry in HERE.iterdir() if entry.is_dir()]
    print(json.dumps({{"instances": [{{"instance": name}} for name in live]}}))
elif verb == "stop":
    if not (HERE / rest[0]).is_dir():
        fail("no instance found")
    (HERE / rest[0]).rmdir()
elif verb == "exec":
    name = rest[0].removeprefix("instance://")
    if not (HERE / name).is_dir():
        fail("no instance found with name " + name)
    folder = dict(options).get("--pwd")
    os.chdir(folder or HERE)
    command = rest[1:]
    if command[0] == "su":
        command = ["sh", "-c", "echo as " + command[-1] + "; " + command[-2]]
    os.execvpe(command[0], command, os.environ | variables(options))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the script, its instances and its log."""
    place = tmp_path / "apptainer"
    place.mkdir()
    program = place / "apptainer"
    program.write_text(PROGRAM.format(python=sys.executable, folder=str(place)))
    program.chmod(0o755)
    return place


def calls(folder: Path, verb: str) -> list[list[str]]:
    lines = map(json.loads, (folder / "calls").read_text().splitlines())
    return [line[1:] for line in lines if line[0] == verb]


def instances(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.is_dir()]


def sandbox_of(folder: Path, options: dict[str, Any] | None = None, **fields: Any) -> AsyncSandbox:
    spec = SandboxSpec(**{"image": "ubuntu:22.04", **fields})
    return AsyncSandbox({"apptainer": {"bin_path": str(folder), **(options or {})}}, spec)


async def test_commands_and_files_reach_the_instance(folder: Path, tmp_path: Path) -> None:
    env = {"A": "1 $HOME 'x'", "B": "two\nlines"}
    async with sandbox_of(folder, env=env, workdir=str(tmp_path), files={f"{tmp_path}/f": "text"}) as sandbox:
        await sandbox.start()
        assert await sandbox.status() is SandboxStatus.RUNNING
        done = await sandbox.exec('pwd; cat f; echo; echo "$A"; echo "$B"; echo "$C"; exit 3', env={"C": "c"})
        assert done == SandboxExecResult(f"{tmp_path}\ntext\n1 $HOME 'x'\ntwo\nlines\nc\n", "", 3)
        (tmp_path / "in").write_bytes(b"\x00\xff")
        await sandbox.upload(tmp_path / "in", f"{tmp_path}/deep/er")
        await sandbox.download(f"{tmp_path}/deep/er", tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == b"\x00\xff"
    assert instances(folder) == []
    assert "1 $HOME" not in (folder / "calls").read_text()


async def test_an_instance_starts_with_its_folders_limits_and_arguments(folder: Path) -> None:
    options = {"create": {"extra_start_args": ["--writable-tmpfs"]}, "exec": {"default_binds": ["/a:/b"]}}
    fields: dict[str, Any] = {
        "resources": {"cpu": 2, "memory_mib": 64, "gpu": 1},
        "provider_options": {"binds": "/c:/d:ro"},
    }
    async with sandbox_of(folder, options, **fields) as sandbox:
        await sandbox.start()
        place = sandbox._require_handle().raw.folder
        assert place.is_dir()
    assert not place.exists()
    (start,) = calls(folder, "start")
    binds = ["--bind", f"{place}:/sandbox", "--bind", "/a:/b", "--bind", "/c:/d:ro"]
    limits = ["--cpus", "2", "--memory", "64m", "--nv", "--writable-tmpfs"]
    assert start[:-1] == [*binds, *limits, "docker://ubuntu:22.04"]


@pytest.mark.parametrize("image", ["./image.sif", "/images/x", "library://u/c/i:1", "name.sif"])
async def test_files_and_addresses_of_images_stay_as_they_are(folder: Path, image: str) -> None:
    async with sandbox_of(folder, image=image) as sandbox:
        await sandbox.start()
    assert calls(folder, "start")[0][-2] == image


async def test_a_service_outlives_its_command(folder: Path, tmp_path: Path) -> None:
    async with sandbox_of(folder, workdir=str(tmp_path)) as sandbox:
        await sandbox.start()
        service = '(until test -e go; do sleep 0.1; done; echo "$NAME" > done) > /dev/null 2>&1 &'
        await sandbox.exec(service, env={"NAME": "gym"}, preserve_background_services=True)
        done = await sandbox.exec("touch go; until test -s done; do sleep 0.1; done; cat done")
        assert done.stdout == "gym\n"


async def test_users_are_root_by_fakeroot_or_others_by_su(folder: Path) -> None:
    async with sandbox_of(folder) as sandbox:
        await sandbox.start()
        assert (await sandbox.exec("echo hi", user="root")).stdout == "hi\n"
        assert "--fakeroot" in calls(folder, "exec")[-1]
        assert (await sandbox.exec("echo hi", user="worker")).stdout == "as worker\nhi\n"


async def test_an_instance_that_is_gone_is_named(folder: Path) -> None:
    sandbox = sandbox_of(folder)
    await sandbox.start()
    (folder / sandbox._require_handle().sandbox_id).rmdir()
    done = await sandbox.exec("true")
    assert (done.return_code, done.error_type) == (125, "sandbox")
    await sandbox.stop()


async def test_a_command_that_prints_fatal_is_no_failure_of_the_instance(folder: Path) -> None:
    async with sandbox_of(folder) as sandbox:
        await sandbox.start()
        done = await sandbox.exec("echo FATAL: mine >&2; exit 2")
        assert (done.return_code, done.error_type) == (2, None)


async def test_another_process_connects_to_an_instance(folder: Path) -> None:
    provider = create_provider({"apptainer": {"bin_path": str(folder)}})
    async with sandbox_of(folder, workdir="/tmp") as owner:
        await owner.start()
        descriptor = json.loads(json.dumps(await owner.serialize()))
        guest = await AsyncSandbox.connect(descriptor, provider=provider)
        assert (await guest.exec("pwd")).stdout == "/tmp\n"
        await guest.disconnect()
    with pytest.raises(RuntimeError, match="stopped"):
        await AsyncSandbox.connect(descriptor, provider=provider)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image": "missing.sif"}, "could not open image missing.sif"),
        ({"image": None}, "image"),
        ({"ports": [80], "entrypoint": ["x"]}, "entrypoint, ports"),
        ({"provider_options": {"network_policy": {"defaultAction": "deny"}}}, "network_policy"),
    ],
)
async def test_a_request_that_cannot_be_met_is_refused(
    folder: Path, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(SandboxCreateError, match=message):
        await sandbox_of(folder, **fields).start()
    assert instances(folder) == []


def test_a_missing_program_is_named(folder: Path, tmp_path: Path) -> None:
    provider = get_provider_class("apptainer")
    assert provider is ApptainerProvider
    assert provider.find_missing({"bin_path": str(folder)}) is None
    assert f"is not in {tmp_path}" in provider.find_missing({"bin_path": str(tmp_path)})


def test_a_provider_derived_from_it_runs_the_same_program(folder: Path) -> None:
    class Renamed(ApptainerProvider):
        name = "renamed"

    assert Renamed.find_missing({"bin_path": str(folder)}) is None
