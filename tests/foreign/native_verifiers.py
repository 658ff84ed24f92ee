"""Episodes of verifiers by its own runner, without a gateway, run by an interpreter that has it.

python native_verifiers.py '{"folder": "…", "options": {…}, "tasks": [0], "url": "http://…/v1", "turns": 50}'

The harness program runs on this interpreter, where the runner would install its packages from an index.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import sys
import tempfile
import urllib.request
from pathlib import Path

os.environ.update(HOME=tempfile.mkdtemp(), NO_PROXY="127.0.0.1", NATIVE_API_KEY="native")

from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE
from verifiers.v1.runtimes.subprocess import SubprocessRuntime
from verifiers.v1.utils.loaders import env_config_type, load_environment, resolve_env_config


def place_program():
    folder = Path(SubprocessRuntime.scripts_dir)
    folder.mkdir(parents=True)
    program = folder / f"{hashlib.sha256(CHAT_PROGRAM_SOURCE.encode()).hexdigest()}.py"
    program.write_text(CHAT_PROGRAM_SOURCE)
    SubprocessRuntime._interpreters[str(program)] = sys.executable


def build_env(given, client):
    sys.path.insert(0, given["folder"])
    os.environ["PYTHONPATH"] = given["folder"]
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    name = Path(given["folder"]).name
    raw = {**given["options"], "taskset": {**given["options"].get("taskset", {}), "id": name}}
    for seat, field in env_config_type(name).model_fields.items():
        default = field.default
        if type(default).__name__ == "AgentConfig":
            raw[seat] = {"runtime": {"type": "subprocess"}, "max_turns": given["turns"]}
            if default.harness is None:
                raw[seat]["harness"] = {"id": "null"}
    if name == "interception":
        judge = {"base_url": given["url"], "api_key_var": "NATIVE_API_KEY", "model": "judge"}
        raw["taskset"]["task"] = {"judge": judge}
    return load_environment(resolve_env_config(raw))


def describe(episode):
    return {
        "ok": episode.ok,
        "errors": [f"{error.type}: {error.message}" for error in episode.errors],
        "traces": [
            {
                "agent": trace.agent.name,
                "ok": trace.ok,
                "stop": trace.stop_condition,
                "calls": sum(call.error is None for call in trace.calls),
                "reward": trace.reward,
                "rewards": {name: each and each.value for name, each in trace.rewards.items()},
                "metrics": trace.metrics,
                "errors": [f"{error.type}: {error.message}" for error in trace.errors],
            }
            for trace in episode.traces
        ],
    }


async def play(given):
    client = EvalClientConfig(base_url=given["url"], api_key_var="NATIVE_API_KEY")
    env = build_env(given, client)
    found = []
    async with env.serving():
        for index in given["tasks"]:
            task = next(itertools.islice(env.taskset, index, None))
            (slot,) = env.slots(task)
            await asyncio.to_thread(urllib.request.urlopen, f"{given['url']}/mark", b"")
            try:
                found.append(describe(await env.run_slot(slot, ModelContext(model="policy", client=client))))
            except SystemExit as exit:
                found.append({"exit": str(exit)})
    return found


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        place_program()
        result = asyncio.run(play(json.loads(sys.argv[1])))
    print(json.dumps(result, default=str))
