"""The taskset `nemo_gym` of verifiers, unmodified, at a resources server that runs.

python native_nemo_gym.py '{"dataset": "…", "url": "…", "token": "…", "engine": "http://…/v1", "rows": 20}'

The harness program runs on this interpreter, where the runner would install its packages from an index.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ.update(HOME=tempfile.mkdtemp(), NO_PROXY="127.0.0.1", ENGINE_KEY="none")

from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE
from verifiers.v1.runtimes.subprocess import SubprocessRuntime
from verifiers.v1.utils.loaders import load_environment, resolve_env_config


def place_program():
    folder = Path(SubprocessRuntime.scripts_dir)
    folder.mkdir(parents=True)
    program = folder / f"{hashlib.sha256(CHAT_PROGRAM_SOURCE.encode()).hexdigest()}.py"
    program.write_text(CHAT_PROGRAM_SOURCE)
    SubprocessRuntime._interpreters[str(program)] = sys.executable


def build_env(given):
    task = {"resources_url": given["url"], "headers": {"x-ng-token": given["token"]}}
    return load_environment(
        resolve_env_config(
            {
                "taskset": {"id": "nemo_gym", "dataset": given["dataset"], "task": task},
                "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}},
            }
        )
    )


async def run(given):
    env = build_env(given)
    client = EvalClientConfig(base_url=given["engine"], api_key_var="ENGINE_KEY")
    found = []
    async with env.serving():
        for task in env.taskset.take(given["rows"]):
            (slot,) = env.slots(task)
            episode = await env.run_slot(slot, ModelContext(model="mock", client=client))
            (trace,) = episode.traces
            errors = [f"{error.type}: {error.message}" for error in trace.errors]
            found.append({"reward": trace.reward, "metrics": trace.metrics, "errors": errors})
    return found


if __name__ == "__main__":
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    place_program()
    with contextlib.redirect_stdout(sys.stderr):
        result = asyncio.run(run(json.loads(sys.argv[1])))
    sys.stdout.write(json.dumps(result))
