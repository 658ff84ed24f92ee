"""Verifiers of an early commit, each with a cause of errors that was mended since, rank below those of today.

The early package is taken from git, and its servers listen in a process of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.audit.environment import AuditSettings, EnvironmentAudit
from nemo_gym.transport import Caller, HttpTransport
from nemo_gym.transport.moving_caller import build_caller
from tests.audit.planted_verifiers import make_row

COMMIT = "afca3c0"
SERVERS = ("math_with_judge", "string_match", "reasoning_gym")
SERVE = """
import asyncio, importlib, json, sys
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.testing.in_process import InProcessGym

async def serve():
    gym = InProcessGym()
    for name in sys.argv[1:]:
        module = importlib.import_module(f"resources_servers.{name}.app")
        kinds = [each for each in vars(module).values() if isinstance(each, type)]
        server = next(
            each for each in kinds if issubclass(each, SimpleResourcesServer) and each.__module__ == module.__name__
        )
        gym.add(server, name, **({"should_use_judge": False} if name == "math_with_judge" else {}))
    async with gym.running(over_http=True):
        print(json.dumps(gym.config), flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(serve())
"""


class Cause(NamedTuple):
    name: str
    server: str
    rows: Sequence[Mapping[str, Any]]
    kinds: Sequence[str]
    """The classes of probes that find it."""


def boxed(gold: str, **members: Any) -> Mapping[str, Any]:
    return make_row(
        "How much? Put it inside \\boxed{}.", question="How much?", expected_answer=gold, **members
    )


def matched(gold: str) -> Mapping[str, Any]:
    return boxed(gold, extraction_mode="boxed", case_sensitive=False)


def generated(task: str) -> list[Mapping[str, Any]]:
    import reasoning_gym

    rows: list[Mapping[str, Any]] = []
    for entry in reasoning_gym.create_dataset(task, size=8, seed=0):
        metadata = json.loads(json.dumps(entry["metadata"], default=str))
        rows.append(make_row(entry["question"], **{**entry, "metadata": metadata}))
    return rows


LETTERS = [{"A": "red"}, {"B": "blue"}, {"C": "pink"}]
CAUSES = [
    Cause("a huge power", "math_with_judge", [boxed("2^{1000}")], ["expression plus one"]),
    Cause(
        "a huge factorial",
        "math_with_judge",
        [boxed("100!", answer_type="expression")],
        ["expression plus one"],
    ),
    Cause("a huge binomial", "math_with_judge", [boxed("\\binom{2024}{1012}")], ["expression plus one"]),
    Cause("a small decimal", "math_with_judge", [boxed("0.00001")], ["number as a power of ten"]),
    Cause("a number in braces", "math_with_judge", [boxed("42")], ["number in braces"]),
    Cause("a fraction in braces", "math_with_judge", [boxed("\\frac{1}{2}")], ["expression in braces"]),
    Cause("a letter as text", "math_with_judge", [boxed("C", options=LETTERS)], ["letter as text"]),
    Cause("a number word", "math_with_judge", [boxed("5")], ["a thousandth"]),
    Cause("a number word in texts", "string_match", [matched("5")], ["a thousandth"]),
    Cause("not a number", "reasoning_gym", generated("complex_arithmetic"), ["universal answer"]),
    Cause("zero wins coins", "reasoning_gym", generated("coin_flip"), ["universal answer"]),
]


@pytest.fixture(scope="module")
def gyms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Mapping[str, Any]]]:
    """The configurations of the early servers and of today's, which listen."""
    early = tmp_path_factory.mktemp("early")
    archive = subprocess.run(
        ["git", "archive", COMMIT, "nemo_gym", "resources_servers", "responses_api_models", "responses_api_agents"],
        cwd=PARENT_DIR, check=False, capture_output=True,
    )  # fmt: skip
    if archive.returncode:
        pytest.skip(f"this clone has no commit {COMMIT}")
    subprocess.run(["tar", "-x"], cwd=early, input=archive.stdout, check=True)
    started = {name: start_servers(tree) for name, tree in {"early": early, "today": PARENT_DIR}.items()}
    yield {name: json.loads(process.stdout.readline()) for name, process in started.items() if process.stdout}
    for process in started.values():
        process.communicate()


def start_servers(tree: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, *SERVERS],
        cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


async def find_wrong_classes(config: Mapping[str, Any], cause: Cause, folder: Path) -> set[str]:
    transport = HttpTransport()
    caller: Caller = build_caller(config, transport, None)
    audit = EnvironmentAudit(cause.name, cause.server, cause.rows, AuditSettings(folder, repeats=False))
    journal, _ = await audit.run(caller)
    card = audit.build_card(journal)
    journal.close()
    await transport.close()
    return {each.kind for each in card.classes if each.rate.wrong}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.name)
def test_an_early_verifier_ranks_below_todays(
    cause: Cause, gyms: Mapping[str, Mapping[str, Any]], tmp_path: Path
) -> None:
    early, today = (
        asyncio.run(find_wrong_classes(gyms[name], cause, tmp_path / name)) for name in ("early", "today")
    )
    assert set(cause.kinds) <= early
    assert not today
