"""Attempts that fail, each in its own way: the prompt names the way."""

from __future__ import annotations

import asyncio
import sys

import verifiers.v1 as vf

__all__ = ["BrokenTaskset"]

WAYS = ("raises", "nan", "none", "text", "setup", "exits", "no_metric", "good")


class BrokenTask(vf.Task[vf.TaskData]):
    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        if self.data.name == "setup":
            raise RuntimeError("the setup broke")
        if self.data.name == "exits":
            sys.exit("the task ended its process")
        await asyncio.sleep(0)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float("inf") if self.data.name == "no_metric" else float(len(trace.last_reply))

    @vf.reward
    async def scored(self, trace: vf.Trace) -> float:
        if self.data.name == "raises":
            raise RuntimeError("the scorer broke")
        return {"nan": float("nan"), "none": None, "text": "good"}.get(self.data.name, 1.0)


class BrokenTaskset(vf.Taskset[BrokenTask, vf.TasksetConfig]):
    def load(self) -> list[BrokenTask]:
        return [
            BrokenTask(vf.TaskData(idx=index, name=way, prompt=f"Fail: {way}"), self.config.task)
            for index, way in enumerate(WAYS)
        ]
