"""Words that end an attempt: a stop of the task, and a user that asks again until it has heard enough."""

from __future__ import annotations

import verifiers.v1 as vf

__all__ = ["PatienceEnv", "PatienceTaskset"]


class PatienceTask(vf.Task[vf.TaskData]):
    @vf.stop
    async def heard_enough(self, trace: vf.Trace) -> bool:
        return "enough" in trace.last_reply

    @vf.reward
    async def turns(self, trace: vf.Trace) -> float:
        return float(trace.num_turns)


class PatienceEnv(vf.SingleAgentEnv):
    async def run(self, task, agents) -> None:
        async with agents.agent.interaction(task) as user:
            said = await user.turn()
            for number in range(3):
                if said.terminated:
                    break
                said = await user.turn(f"Patience: number {number + 1}?")


class PatienceTaskset(vf.Taskset[PatienceTask, vf.TasksetConfig]):
    def load(self) -> list[PatienceTask]:
        return [
            PatienceTask(vf.TaskData(idx=index, prompt=f"Patience: begin {index}."), self.config.task)
            for index in range(4)
        ]
