"""Check that this machine scores right and wrong solutions correctly: every HumanEval task with three solutions.

python resources_servers/code_gen/selftest.py --input HumanEval.jsonl

The canonical solutions must score 1. Solutions without a body, and solutions that return None, must score 0. The exit
code is 1 when a score differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.rows.compose import attach_response
from resources_servers.code_gen.app import CompCodingResourcesServer, CompCodingVerifyRequest
from resources_servers.code_gen.prepare import task_row

BODIES: Mapping[str, tuple[str | None, float]] = {
    "canonical": (None, 1.0),
    "without a body": ("    pass\n", 0.0),
    "returning None": ("    return None\n", 0.0),
}
"""The body of each kind of solution (None for the canonical one) and its expected reward."""


class Scored(NamedTuple):
    """One task solved in one way."""

    way: str
    task_id: str
    reward: float
    reason: str | None

    @property
    def is_right(self) -> bool:
        return self.reward == BODIES[self.way][1]


async def score_all(server: CompCodingResourcesServer, problems: Sequence[Mapping[str, Any]]) -> list[Scored]:
    """Score every kind of solution of every problem with the server's `verify`."""

    async def score(problem: Mapping[str, Any], way: str) -> Scored:
        body = BODIES[way][0] or problem["canonical_solution"]
        text = f"```python\n{problem['prompt']}{body}```"
        row = attach_response(task_row(problem), response_of(text))
        scored = await server.verify(CompCodingVerifyRequest.model_validate(row))
        return Scored(way, problem["task_id"], scored.reward, scored.failure_reason)

    return await asyncio.gather(*(score(problem, way) for way in BODIES for problem in problems))


def response_of(text: str) -> dict[str, Any]:
    """Return a Response with one message that holds `text`."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    answer = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [message]}
    return {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", type=Path, required=True)
    lines = parser.parse_args().input.read_text(encoding="utf-8").splitlines()
    server = CompCodingResourcesServer.standalone()
    assert isinstance(server, CompCodingResourcesServer)
    start = time.monotonic()
    results = asyncio.run(score_all(server, [json.loads(line) for line in lines]))
    seconds = time.monotonic() - start
    for way in BODIES:
        rewards = [scored.reward for scored in results if scored.way == way]
        sys.stdout.write(f"{way}: {sum(rewards):g} of {len(rewards)} score 1\n")
    sys.stdout.write(f"{len(results)} solutions in {seconds:.1f} s\n")
    wrong = [scored for scored in results if not scored.is_right]
    for scored in wrong:
        sys.stdout.write(f"wrong score: {scored}\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
