"""A policy that repairs a repository with whatever tools an agent offers, and a gym in which the agent plays."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import orjson
import yaml

from nemo_gym import PARENT_DIR
from nemo_gym.engines.model_calls import CAPTURE_DIR_KEY
from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply, ToolCall
from nemo_gym.mock_engine.conversation import Message, Tool, called_tools, name_of
from nemo_gym.testing.environment import read_rows
from nemo_gym.testing.in_process import InProcessGym
from resources_servers.code_repair.app import CodeRepairResourcesServer
from resources_servers.code_repair.bugs import files_of
from responses_api_agents.external_agent.app import ExternalAgent
from responses_api_models.vllm_model.app import VLLMModel

INSTALLED = PARENT_DIR / ".venvs" / "harnesses"
CONFIGS = PARENT_DIR / "responses_api_agents" / "external_agent" / "configs"
ROW = read_rows(PARENT_DIR / "resources_servers" / "code_repair" / "data" / "example.jsonl")[2]
FILE = "ledger/money.py"
RIGHT = files_of("ledger")[FILE]
REPAIR = f"cat > {FILE} <<'END'\n{RIGHT}END\n"
FINAL = "The bug is corrected."

SHELLS: Mapping[str, Mapping[str, Any]] = {
    "Bash": {"command": REPAIR, "description": "correct the bug"},
    "bash": {"command": REPAIR, "description": "correct the bug"},
    "exec_command": {"cmd": REPAIR},
    "run_shell_command": {"command": REPAIR, "is_background": False},
    "shell": {"command": ["bash", "-c", REPAIR]},
    "shell_command": {"command": REPAIR},
}
"""The names of tools that run a command, and arguments that repair the file."""
LAST: Mapping[str, Mapping[str, Any]] = {"final_answer": {"answer": FINAL}}
"""The names of tools that end an attempt."""


class RepairPolicy:
    """Looks at a file or runs the tests, writes the right file, and ends: three turns or more."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        names = [name_of(tool) for tool in tools]
        called = called_tools(conversation)
        for name in names:
            if name in SHELLS:
                return self._with_shell(name, SHELLS[name], len(called), names)
            if name.endswith("write_file") and "run_tests" in "".join(names):
                return self._with_tools(name.removesuffix("write_file"), called, names)
        return ModelReply(text="A repair")  # a call beside the conversation, such as one for a title

    def _with_shell(
        self, name: str, arguments: Mapping[str, Any], done: int, names: Sequence[str]
    ) -> ModelReply:
        if done == 0:
            return _call(name, arguments)
        key = "cmd" if "cmd" in arguments else "command"
        if done == 1:
            command = "python3 -m unittest discover -s tests -t . 2>&1 | tail -3"
            return _call(name, {**arguments, key: _like(arguments[key], command)})
        if done == 2 and name == "bash" and names == ["bash"]:
            submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # the end of mini-swe-agent
            return _call(name, {**arguments, key: submit})
        return ModelReply(text=FINAL)

    def _with_tools(self, prefix: str, called: Sequence[str], names: Sequence[str]) -> ModelReply:
        steps = {"read_file": {"path": FILE}, "write_file": {"path": FILE, "content": RIGHT}, "run_tests": {}}
        for step, arguments in steps.items():
            if prefix + step not in called:
                return _call(prefix + step, arguments)
        last = next((name for name in names if name in LAST), None)
        return _call(last, LAST[last]) if last is not None else ModelReply(text=FINAL)


def _like(form: object, command: str) -> object:
    return shlex.split(f"bash -c {shlex.quote(command)}") if isinstance(form, list) else command


def _call(name: str, arguments: Mapping[str, Any]) -> ModelReply:
    return ModelReply(tool_calls=(ToolCall(name, orjson.dumps(arguments).decode()),))


async def play(harness: str, records: Path) -> dict[str, Any]:
    """Return the scored row of one attempt of an installed harness, with its ready configuration."""
    text = (CONFIGS / f"{harness}.yaml").read_text(encoding="utf-8")
    written = yaml.safe_load(text.replace("${harness_folder}", str(INSTALLED)))
    options = written[harness]["responses_api_agents"]["external_agent"]
    del options["entrypoint"]
    options["resources_server"]["name"] = "code_repair"
    gym = InProcessGym()
    gym.config[CAPTURE_DIR_KEY] = str(records)
    engine_options = EngineOptions(model="mock", max_model_len=1_000_000)
    async with MockEngine(engine_options, policy=RepairPolicy()) as engine:
        model = {"base_url": engine.base_url, "api_key": "none", "model": "mock"}
        gym.add(
            VLLMModel, "policy_model", **model, return_token_id_information=True, uses_reasoning_parser=True
        )
        gym.add(CodeRepairResourcesServer, "code_repair", expose_tools_over_mcp=True)
        gym.add(ExternalAgent, harness, **options, timeout_s=300)
        return await gym.run(harness, dict(ROW))
