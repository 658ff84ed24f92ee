"""Two environments of Open Reward Standard: sums with several tools, and a riddle that a plain answer ends."""

from __future__ import annotations

from openreward.environments import Environment, Message, Server, TextBlock, ToolOutput, terminal, tool
from openreward.environments.types import (
    ListToolsOutput,
    ReasoningBlock,
    ToolCallBlock,
    ToolResultBlock,
    ToolSpec,
)
from pydantic import BaseModel

SPLITS = {"train": 120, "test": 3}


class Number(BaseModel):
    number: int


class Answer(BaseModel):
    answer: str


def say(text, **fields):
    return ToolOutput(blocks=[TextBlock(text=text)], **fields)


class Sums(Environment):
    """Add numbers up to a goal, each at most nine."""

    def __init__(self, task_spec, secrets=None):
        super().__init__(task_spec)
        self.goal, self.total = task_spec["goal"], 0

    @classmethod
    def list_splits(cls):
        return list(SPLITS)

    @classmethod
    def list_tasks(cls, split):
        first = 0 if split == "train" else 1000
        return [{"goal": first + 5 + number % 20} for number in range(SPLITS[split])]

    def get_prompt(self):
        return [TextBlock(text=f"Make {self.goal}."), TextBlock(text="Add numbers, then submit.")]

    def list_task_tools(self):
        """Odd goals have a hint."""
        tools = [ToolSpec(name="hint", description="Say the goal again.", input_schema=None)]
        return ListToolsOutput(tools=tools if self.goal % 2 else [])

    @tool(shared=False)
    async def hint(self) -> ToolOutput:
        """Say the goal again."""
        return say(f"{self.goal}", metadata={"hinted": True})

    @tool
    async def add(self, params: Number) -> ToolOutput:
        """Add a number. A step towards the goal has a reward, and another has none."""
        if params.number == 13:
            raise RuntimeError("thirteen")
        self.total += params.number
        return say(f"{self.total}", reward=0.25 if self.total <= self.goal else None)

    @tool
    async def tell(self) -> ToolOutput:
        """Tell a long story."""
        return ToolOutput(blocks=[TextBlock(text="once-" * 2000), TextBlock(text="upon-" * 2000)])

    @tool
    async def submit(self) -> ToolOutput:
        """End the attempt."""
        return say("done", reward=1.0 if self.total == self.goal else 0.0, finished=True)

    @tool
    async def leave(self) -> ToolOutput:
        """End the attempt without a reward."""
        return say("left", finished=True)


class Riddle(Environment):
    """A conversation that goes on, and ends with the policy's next message."""

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"word": word} for word in ("tea", "rain")]

    def get_messages(self):
        asked = ToolCallBlock(id="c1", name="look", input={"at": "sky"})
        seen = ToolResultBlock(tool_call_id="c1", blocks=[TextBlock(text="grey"), TextBlock(text="wet")])
        return [
            Message(role="system", blocks=[TextBlock(text="Be brief.")]),
            Message(role="user", blocks=[TextBlock(text="What falls?")]),
            Message(
                role="assistant",
                blocks=[ReasoningBlock(text="I look."), TextBlock(text="Let me look."), asked],
            ),
            Message(role="user", blocks=[seen, TextBlock(text="Well?")]),
        ]

    @tool
    async def look(self, params: Answer) -> ToolOutput:
        """Look at something."""
        return say("nothing")

    @terminal
    @tool
    async def answer(self, params: Answer) -> ToolOutput:
        """Take the answer."""
        return say("thanks", reward=float(self.task_spec["word"] in params.answer), finished=True)


if __name__ == "__main__":
    Server([Sums, Riddle]).run(host="127.0.0.1", port=8080)
