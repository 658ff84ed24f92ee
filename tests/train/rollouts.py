"""Scored rows for trainers: tools with different arguments, and answers that differ in their reward."""

from __future__ import annotations

from typing import Any

from tests.export.rows import call, output, row, text, thought


def tool(name: str, argument: str) -> dict[str, Any]:
    return {
        "type": "function",
        "name": name,
        "description": f"Wants a {argument}.",
        "parameters": {
            "type": "object",
            "properties": {argument: {"type": "string"}},
            "required": [argument],
        },
        "strict": False,
    }


def tool_rows(tasks: int = 8) -> list[dict[str, Any]]:
    """Two answers to each task, one right; tasks differ in their tool, every fourth has none."""
    rows = []
    for task in range(tasks):
        for repeat in range(2):
            name, argument = (("get_weather", "city"), ("get_time", "zone"))[task % 2]
            said = [text(f"It is number {task * repeat}.")]
            if task % 4:
                asked = call("Oslo") | {"name": name, "arguments": f'{{"{argument}": "Oslo {repeat}"}}'}
                said = [thought("I look it up."), asked, output(f"result {task}"), *said]
            tools = [tool(name, argument)] if task % 4 else None
            rows.append(row(task, repeat, float(repeat), said, tools=tools))
    return rows
