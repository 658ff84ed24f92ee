"""Environments of aviary by direct calls, run by an interpreter that has them.

python native_aviary.py '{"name": "calculator", "tasks": [{…}], "seeds": [0], "steps": [["calculator", {…}], "text"]}'
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys

from aviary.core import Environment, TaskDataset, ToolCall, ToolRequestMessage, ToolResponseMessage


async def play(environment, steps):
    observed, tools = await environment.reset()
    first = "\n\n".join(message.content for message in observed if message.content)
    shown = []
    for step in steps:
        calls = [] if isinstance(step, str) else [ToolCall.from_name(step[0], **step[1])]
        message = ToolRequestMessage(content=step if isinstance(step, str) else None, tool_calls=calls)
        observed, reward, done, truncated = await environment.step(message)
        answers = [each for each in observed if isinstance(each, ToolResponseMessage)]
        others = [each for each in observed if not isinstance(each, ToolResponseMessage)]
        texts = "\n\n".join(each.content for each in others if each.content)
        shown.append(
            [
                [each.content or "" for each in answers],
                texts or None,
                float(reward),
                bool(done),
                bool(truncated),
            ]
        )
        if done or truncated:
            break
    await environment.close()
    return {"first": first, "tools": [tool.info.name for tool in tools], "steps": shown}


def main(given):
    found = []
    for task in given["tasks"] or [None]:
        for seed in given["seeds"]:
            random.seed(seed)
            if task is None:
                environment = TaskDataset.from_name(given["name"]).get_new_env()
            else:
                environment = Environment.from_name(given["name"], **task)
            found.append(asyncio.run(play(environment, given["steps"])))
    return found


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        result = main(json.loads(sys.argv[1]))
    print(json.dumps(result))
