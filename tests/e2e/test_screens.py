"""The screens of a gym of twelve servers with long names, on terminals of three widths.

The commands are those of a user, and the screen is that of a terminal: `ng_run`, `ng_status`, a running collection and
its closing table.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nemo_gym import PARENT_DIR
from tests.screens import LONG_NAMES, WIDTHS
from tests.terminal import Terminal

pytestmark = pytest.mark.long_file

BIN = Path(sys.executable).parent
MODEL, *SERVERS = LONG_NAMES
ENVIRONMENTS, AGENTS = SERVERS[:5], SERVERS[5:]
EXAMPLES = PARENT_DIR / "resources_servers" / "example_single_tool_call" / "data" / "example.jsonl"
COLUMNS_OF_SERVERS = {
    80: ["server", "state", "port", "calls", "errors", "open"],
    120: ["server", "state", "port", "calls", "errors", "open", "s/call", "memory", "restarts", "kind"],
    200: [
        "server",
        "state",
        "port",
        "calls",
        "errors",
        "open",
        "s/call",
        "memory",
        "restarts",
        "kind",
        "url",
    ],
}
COLUMNS_OF_AGENTS = {
    80: ["agent", "failed", "reward", "95 % interval", "pass@1"],
    120: [
        "agent", "rollouts", "truncated", "failed", "missing", "reward", "95 % interval", "pass@1", "pass@2",
    ],
    200: [
        "agent", "tasks", "rollouts", "completed", "truncated", "failed", "missing", "reward", "95 % interval",
        "pass@1", "pass@2", "tokens", "seconds", "coverage",
    ],
}  # fmt: skip


def configuration() -> dict[str, Any]:
    engine = {"policy": "tools", "latency_s": 0.4}
    config: dict[str, Any] = {
        MODEL: {"responses_api_models": {"scripted_model": {"entrypoint": "app.py", "engine": engine}}}
    }
    for name in ENVIRONMENTS:
        config[name] = {
            "resources_servers": {"example_single_tool_call": {"entrypoint": "app.py", "domain": "agent"}}
        }
    for number, name in enumerate(AGENTS):
        server = {
            "entrypoint": "app.py",
            "resources_server": {
                "type": "resources_servers",
                "name": ENVIRONMENTS[number % len(ENVIRONMENTS)],
            },
            "model_server": {"type": "responses_api_models", "name": MODEL},
        }
        config[name] = {"responses_api_agents": {"simple_agent": server}}
    return config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("screens")
    (folder / "runtime").mkdir(mode=0o700)
    (folder / "twelve.yaml").write_text(yaml.safe_dump(configuration(), sort_keys=False))
    tasks = [json.loads(line) for line in EXAMPLES.read_text().splitlines()]
    rows = [
        {**task, "agent_ref": {"type": "responses_api_agents", "name": agent}}
        for agent in AGENTS
        for task in tasks
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime")}


@pytest.fixture(scope="module")
def running(folder: Path, environment: dict[str, str]) -> Iterator[Terminal]:
    command: list[str | Path] = [BIN / "ng_run", "+config_paths=[twelve.yaml]", "++head_server.port=0"]
    with Terminal(command, folder, environment, WIDTHS[0]) as terminal:
        terminal.wait_for(all_ready)
        yield terminal


def all_ready(lines: list[str]) -> bool:
    """Return whether the table shows that the twelve servers and the head server are ready."""
    return sum(bool(re.search(r"  ready +\d+ ", line)) for line in lines) == 13


def columns_of(header: str) -> list[str]:
    return re.split(r"  +", header.strip())


def assert_server_table(lines: list[str], width: int) -> None:
    """Every server has a row with its whole name, state, port and counts, under the columns of the width."""
    assert max(map(len, lines)) <= width
    (place,) = [number for number, line in enumerate(lines) if line.startswith("server ")]
    assert columns_of(lines[place]) == COLUMNS_OF_SERVERS[width]
    for name in LONG_NAMES:
        (row,) = [line for line in lines[place:] if line.startswith(f"{name} ")]
        assert re.match(rf"{name}  ready +\d+ +[\d,]+ +\d+ +\d+", row), row
        assert len(columns_of(row)) == len(COLUMNS_OF_SERVERS[width])


@pytest.mark.parametrize("width", WIDTHS)
def test_ng_run_shows_every_server_and_follows_the_width_of_its_terminal(
    running: Terminal, width: int
) -> None:
    running.resize(width)
    columns = len(COLUMNS_OF_SERVERS[width])
    lines = running.wait_for(
        lambda lines: all_ready(lines) and [len(columns_of(line)) for line in lines[-15:-1]] == [columns] * 14
    )
    assert_server_table(lines[-15:], width)


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("width", WIDTHS)
def test_ng_status_shows_every_server(folder: Path, environment: dict[str, str], width: int) -> None:
    with Terminal([BIN / "ng_status"], folder, environment, width) as terminal:
        lines = terminal.wait_for_end()
        assert terminal.exit_code == 0
    start = next(number for number, line in enumerate(lines) if line.startswith("server "))
    assert_server_table(lines[start:], width)


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize("width", WIDTHS)
def test_a_collection_shows_its_course_and_then_its_table(
    folder: Path, environment: dict[str, str], width: int
) -> None:
    command: list[str | Path] = [
        BIN / "ng_collect_rollouts",
        "+input_jsonl_fpath=tasks.jsonl",
        f"+output_jsonl_fpath=results/at_{width}.jsonl",
        "+num_repeats=2",
        "+num_samples_in_parallel=16",
    ]
    with Terminal(command, folder, environment, width) as terminal:
        course = terminal.wait_for(lambda lines: any(line.startswith("rate ") for line in lines))
        closing = terminal.wait_for_end()
        assert terminal.exit_code == 0
    assert max(map(len, course)) <= width
    places = [number for number, line in enumerate(course) if re.search(r"━+ +\d+ % \d:\d\d$", line)]
    _, *wrapped, rate = course[places[-1] :]
    figures = " ".join(wrapped)
    assert "control: gym ctl" in figures
    means = rf"(({'|'.join(AGENTS)}) \d\.\d{{3}}(, …|, |\s+))+"
    assert re.match(
        rf"\d+/60 rollouts\s+[\d.]+/s\s+(\d:\d\d left\s+)?mean reward {means}\d+ in flight", figures
    )
    assert re.match(r"rate   [▁▂▃▄▅▆▇█ ]+ up to [\d.]+/s$", rate)
    (place,) = [number for number, line in enumerate(closing) if line.startswith("agent ")]
    table = closing[place : place + 1 + len(AGENTS) + 1]
    assert max(map(len, table)) <= width
    assert [row.split()[0] for row in table[1:]] == [*AGENTS, "overall"]
    assert not [line for line in closing if line.startswith("rate ")]
    assert columns_of(table[0]) == COLUMNS_OF_AGENTS[width]
