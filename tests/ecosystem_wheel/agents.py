"""The stage of agents: each agent of the ecosystem collects one rollout with our package and the engine stub.

The agents and environments are copies without their `requirements.txt`, in a working folder outside the repository, and
run in the suite's own environment: they name versions that cannot share one, or that PyPI lacks. Everything else is
theirs, configurations included. The model server is our `vllm_model`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nemo_gym.mock_engine import EngineOptions, MockEngine
from tests.ecosystem_wheel import wheel
from tests.ecosystem_wheel.causes import Cause, cause_of

WORKING_FOLDER = wheel.CACHE / f"agents-{wheel.VERSION}"
STAND_INS = Path(__file__).parent / "stand_ins"
CLAUDE_CODE = wheel.CACHE / "claude_code"
_LIMIT_S = 400
_COLLECT = "import sys; from nemo_gym.cli.e2e_collect_rollouts import main; sys.exit(main())"
_MODEL_SERVER = wheel.REPOSITORY / "responses_api_models/vllm_model/configs/vllm_model.yaml"


@dataclass(frozen=True)
class Case:
    """One agent with an environment that needs no network."""

    agent: str
    """The agent's folder, and the entrypoint if the folder has several."""
    configuration: str
    """A file of the wheel."""
    agent_name: str
    rows: str
    resources: tuple[str, ...] = ()
    """Folders of resources servers."""
    keys: Mapping[str, str] = field(default_factory=dict)
    policy: str = "tools"
    """The policy of the engine stub."""

    @property
    def folder(self) -> str:
        return self.agent.partition("/")[0]


class Answer(NamedTuple):
    """The result of a case; the reason is None if there is a row."""

    agent: str
    started: bool
    reason: Cause | None


_REASONING_ROWS = "resources_servers/reasoning_gym/data/example.jsonl"
_COMPARISON = "single_step_tool_use_with_argument_comparison"


def _langgraph(flavour: str, name: str = "") -> Case:
    return Case(
        f"langgraph_agent/{flavour}",
        f"resources_servers/reasoning_gym/configs/{flavour}_agent.yaml",
        name or f"reasoning_gym_{flavour}_agent",
        _REASONING_ROWS,
        ("reasoning_gym",),
        policy="echo",
    )


CASES = (
    Case(
        "simple_agent",
        "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
        "example_single_tool_call_simple_agent",
        "resources_servers/example_single_tool_call/data/example.jsonl",
        ("example_single_tool_call",),
    ),
    Case(
        "gymnasium_agent",
        "resources_servers/blackjack/configs/blackjack.yaml",
        "blackjack_gymnasium_agent",
        "resources_servers/blackjack/data/example.jsonl",
        ("blackjack", "gymnasium"),
    ),
    Case(
        "tool_simulation_agent",
        f"resources_servers/{_COMPARISON}/configs/droid_pivot_{_COMPARISON}.yaml",
        f"droid_pivot_{_COMPARISON}_agent",
        f"resources_servers/{_COMPARISON}/data/example.jsonl",
        (_COMPARISON,),
    ),
    _langgraph("reflection", "reasoning_gym_langgraph_agent"),
    *map(_langgraph, ("orchestrator", "parallel_thinking", "rewoo")),
    Case(
        "remote_agent",
        "responses_api_agents/remote_agent/configs/remote_agent.yaml",
        "remote_agent",
        _REASONING_ROWS,
        ("reasoning_gym",),
        {"agent_base_url": "{engine}", "resources_server.name": "reasoning_gym"},
        policy="echo",
    ),
    Case(
        "verifiers_agent",
        "responses_api_agents/verifiers_agent/configs/verifiers_agent.yaml",
        "verifiers_agent",
        "responses_api_agents/verifiers_agent/data/acereason-math-example.jsonl",
        policy="echo",
    ),
    Case(
        "mini_swe_agent",
        "responses_api_agents/mini_swe_agent/configs/mini_swe_agent.yaml",
        "mini_swe_simple_agent",
        "responses_api_agents/mini_swe_agent/data/example.jsonl",
        keys={"cache_dir_template": "images"},
    ),
    Case(
        "claude_code_agent",
        "resources_servers/reasoning_gym/configs/reasoning_gym_claude_code_agent_model_server.yaml",
        "reasoning_gym_claude_code_agent_model_server",
        _REASONING_ROWS,
        ("reasoning_gym",),
        policy="echo",  # its tools would edit files
    ),
)


def lay_out() -> None:
    """Copy the agents and environments of the cases, and install the program of `claude_code_agent`."""
    shutil.rmtree(WORKING_FOLDER, ignore_errors=True)
    folders = {f"responses_api_agents/{case.folder}" for case in CASES}
    folders |= {f"resources_servers/{name}" for case in CASES for name in case.resources}
    for folder in sorted(folders):
        left_out = shutil.ignore_patterns("requirements.txt", "tests", "__pycache__")
        shutil.copytree(wheel.TREE / folder, WORKING_FOLDER / folder, ignore=left_out)
    if not CLAUDE_CODE.is_dir() and shutil.which("npm") is not None:
        install = ["npm", "install", "--silent", "--prefix", str(CLAUDE_CODE), "@anthropic-ai/claude-code"]
        subprocess.run(install, check=False)


async def collect(case: Case, python: Path, left_out: Mapping[str, str]) -> Answer:
    """Collect one rollout of the case."""
    output = WORKING_FOLDER / "results" / case.agent.replace("/", "_")
    async with MockEngine(EngineOptions.model_validate({"policy": case.policy})) as engine:
        text = await asyncio.to_thread(_run, case, python, output, engine.root_url)
    started = re.search(r"all \d+ servers are ready", text) is not None
    rows, failures = output / "rollouts.jsonl", output / "rollouts_failures.jsonl"
    if rows.is_file() and rows.read_text(encoding="utf-8").strip():
        return Answer(case.agent, started, None)
    if failures.is_file():
        row = json.loads(failures.read_text(encoding="utf-8").partition("\n")[0])
        text = str(row.get("_ng_failure", {}).get("message"))
    return Answer(case.agent, started, cause_of(text, left_out))


def _run(case: Case, python: Path, output: Path, engine: str) -> str:
    """Run the collection and return what it printed."""
    block = f"++{case.agent_name}.responses_api_agents.{case.folder}"
    configurations = [case.configuration, str(_MODEL_SERVER)]
    if case.folder == "remote_agent":
        configurations.append("resources_servers/reasoning_gym/configs/resources_only.yaml")
    arguments = [
        f"+config_paths=[{','.join(configurations)}]",
        *(f"{block}.{key}={value.format(engine=engine)}" for key, value in case.keys.items()),
        f"+agent_name={case.agent_name}",
        f"+input_jsonl_fpath={case.rows}",
        f"+output_jsonl_fpath={output / 'rollouts.jsonl'}",
        f"+policy_base_url={engine}/v1",
        "+policy_api_key=none",
        "+policy_model_name=mock",
        "+limit=1",
        "+num_repeats=1",
        "+max_attempts=1",
    ]
    programs = f"{CLAUDE_CODE / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    path = os.pathsep.join(map(str, (wheel.REPOSITORY, STAND_INS)))
    done = subprocess.run(
        [python, "-c", _COLLECT, *arguments],
        cwd=WORKING_FOLDER,
        env={**os.environ, "PATH": programs, "PYTHONPATH": path},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_LIMIT_S,
    )
    return done.stdout


def table_of(answers: list[Answer]) -> str:
    """Return the table for the terminal."""
    lines = [f"{'agent':36}{'started':10}{'answered':10}reason"]
    for agent, started, reason in answers:
        words = ("yes" if started else "no", "yes" if reason is None else "no", str(reason or ""))
        lines.append(f"{agent:36}{words[0]:10}{words[1]:10}{words[2]}")
    return "\n".join(lines)


async def collect_all(python: Path, left_out: Mapping[str, str], wanted: Sequence[str]) -> list[Answer]:
    """Collect a rollout of every case, or of those whose agent contains a word of `wanted`; print the table."""
    lay_out()
    answers: list[Answer] = []
    for case in CASES:
        if not wanted or any(word in case.agent for word in wanted):
            answers.append(await collect(case, python, left_out))
            print(table_of(answers[-1:]).splitlines()[1], file=sys.stderr, flush=True)
    print(table_of(answers), flush=True)
    return answers
