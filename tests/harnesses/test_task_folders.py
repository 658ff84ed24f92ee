"""Known agents, unchanged and offline, play task folders in the sandboxes of their tasks, and a killed run goes on."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.mock_engine import MockEngine, ModelReply
from nemo_gym.mock_engine.conversation import Message, list_called_tools, read_text
from nemo_gym.mock_engine.tokenizer import PairTokenizer
from nemo_gym.rows.calls import read_calls
from nemo_gym.sandbox.providers.rootless.debian import name_base
from nemo_gym.tokens.segments import build_segments
from tests.e2e.gym_command import GYM
from tests.e2e.gym_run import read_lines
from tests.harnesses.policies import RepairPolicy
from tests.harnesses.repairs import ENGINE, INSTALLED, OTHER_VENVS, skip_unless_installed
from tests.sandbox.rootless_images import READABLE, host_provider, needs_rootless, write_host_layer
from tests.sources.task_folders.task_maker import make_task

pytestmark = [pytest.mark.harnesses, needs_rootless]
TASKS = 10
_WANTED = re.compile(r"Write (0\.\d\d) to /tmp/answer")


class AnsweringPolicy(RepairPolicy):
    """Looks around in the sandbox, and writes the number that the instruction names."""

    def commands(self, conversation: Sequence[Message]) -> list[str]:
        said = "\n".join(read_text(message.get("content")) for message in conversation)
        return ["pwd; ls -A", f"echo {_WANTED.findall(said)[0]} > /tmp/answer", "cat /tmp/answer"]

    def next_turn(self, conversation: Sequence[Message], names: Sequence[str]) -> ModelReply:
        if list_called_tools(conversation) and not _WANTED.search(str(conversation)):
            return ModelReply(text="A repair")
        return super().next_turn(conversation, names)


def start(folder: Path, store: Path, engine: MockEngine, harness: str, *more: str) -> subprocess.Popen[str]:
    (folder / "runtime").mkdir(mode=0o700, exist_ok=True)
    installed = INSTALLED / OTHER_VENVS.get(harness, "")
    return subprocess.Popen(
        [
            *(*GYM, "eval", "run", "tasks", "--agent-type", f"external_agent/{harness}"),
            *("--model-type", "vllm_model/vllm_model_for_training"),
            *("--url", engine.base_url, "--model", "mock", "--model-api-key", "none"),
            *("-o", "out.jsonl", "++head_server.port=0", "--json", *more),
            f"+harness_folder={installed}",
            f"+sandbox_provider={{rootless: {{store: {store}}}}}",
            f"+readable=[{','.join(READABLE)}]",
        ],
        cwd=folder,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def skip_unless_shown(harness: str) -> None:
    """Skip the test if the sandboxes do not show the interpreter of an agent that is in a venv."""
    interpreter = (INSTALLED / OTHER_VENVS.get(harness, "") / "venv" / "bin" / "python").resolve()
    if harness in OTHER_VENVS and not any(interpreter.is_relative_to(folder) for folder in READABLE):
        pytest.skip(f"sandboxes do not show {interpreter}: install with PYTHON=/usr/bin/python3")


def check_tokens(row: dict[str, Any]) -> None:
    """Every call of the row has its ids, and they are those of the texts that the engine read and wrote."""
    calls, tokenizer = read_calls(row), PairTokenizer()
    assert len(calls) >= 4
    assert [call.masked for call in calls] == [None] * len(calls)
    segments = build_segments(calls)
    sampled = sum(sum(segment.loss_mask) for segment in segments)
    assert sampled == sum(len(call.tokens.generated) for call in calls if call.tokens is not None)
    number = _WANTED.findall(str(row["responses_create_params"]["input"]))[0]
    whole = "".join(tokenizer.decode(segment.token_ids) for segment in segments)
    assert f"echo {number} > /tmp/answer" in whole


@pytest.mark.parametrize("harness", ["claude_code", "mini_swe_agent"])
async def test_ten_folders_are_played_in_their_sandboxes_and_a_killed_run_goes_on(
    harness: str, tmp_path: Path
) -> None:
    skip_unless_installed(harness)
    skip_unless_shown(harness)
    for number in range(TASKS):
        text = f"Write 0.{number + 10} to /tmp/answer.\n"
        folder = make_task(tmp_path / "tasks" / f"task{number}")
        (folder / "instruction.md").write_text(text)
    policy = AnsweringPolicy()
    with host_provider() as provider:
        write_host_layer(provider, name_base([]))
        store = provider.store.folder
        async with MockEngine(ENGINE, policy=policy) as engine:
            line = (tmp_path, store, engine, harness, "++num_samples_in_parallel=2")
            killed = start(*line)
            try:
                while count_rows(tmp_path) < 3 and killed.poll() is None:  # noqa: ASYNC110 - another process writes
                    await asyncio.sleep(0.05)
            finally:
                killed.kill()
                printed = killed.communicate()
            before = read_lines(tmp_path / "out.jsonl")
            assert 3 <= len(before) < TASKS, printed
            resumed = start(*line, "--resume")
            printed = await asyncio.to_thread(resumed.communicate)
            assert resumed.returncode == 0, printed
        assert list((store / "sandboxes").iterdir()) == []
    after = read_lines(tmp_path / "out.jsonl")
    assert after[: len(before)] == before
    rewards = {row["task_id"]: row["reward"] for row in after}
    assert rewards == {f"task{number}": (number + 10) / 100 for number in range(TASKS)}
    assert len(after) == TASKS
    for row in after:
        assert row["external_agent"]["isolation"] == "rootless"
        check_tokens(row)


def count_rows(folder: Path) -> int:
    rows = folder / "out.jsonl"
    return rows.read_bytes().count(b"\n") if rows.exists() else 0
