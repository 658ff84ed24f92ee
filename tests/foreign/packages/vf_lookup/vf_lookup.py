"""Words to be looked up with a tool whose server belongs to the task."""

from __future__ import annotations

import verifiers.v1 as vf

__all__ = ["LookupTaskset"]

WORDS = {"kea": "a parrot", "tui": "a honeyeater", "weka": "a rail"}


class LookupToolset(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = "words"

    @vf.tool
    def look_up(self, word: str) -> str:
        """Return the meaning of a word."""
        return WORDS.get(word, "unknown")


class LookupConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class LookupData(vf.TaskData):
    word: str


class LookupTask(vf.Task[LookupData, vf.State, LookupConfig]):
    @classmethod
    def toolsets(cls, config: LookupConfig) -> list[vf.Toolset]:
        return [LookupToolset(config.tools)]

    @vf.reward
    async def found(self, trace: vf.Trace) -> float:
        return float(WORDS[self.data.word] in trace.last_reply)

    @vf.metric
    async def results(self, trace: vf.Trace) -> float:
        return float(len(trace.tool_messages))


class LookupTasksetConfig(vf.TasksetConfig):
    task: LookupConfig = LookupConfig()


class LookupTaskset(vf.Taskset[LookupTask, LookupTasksetConfig]):
    def load(self) -> list[LookupTask]:
        return [
            LookupTask(LookupData(idx=index, word=word, prompt=f"Look up: {word}"), self.config.task)
            for index, word in enumerate(WORDS)
        ]


if __name__ == "__main__":
    LookupToolset.run()
