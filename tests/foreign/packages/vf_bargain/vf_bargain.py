"""A buyer and a seller name prices in turns: two seats, rewards that sum to zero, and a judge that never trains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import verifiers.v1 as vf

__all__ = ["BargainEnv", "BargainTaskset"]


class BargainData(vf.TaskData):
    worth: int


class BargainTask(vf.Task[BargainData]):
    pass


class BargainConfig(vf.EnvConfig):
    buyer: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    seller: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    referee: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})
    rounds: int = 2


class BargainEnv(vf.Env[BargainConfig]):
    async def setup(self, agents: vf.Agents) -> None:
        agents.referee.trainable = False

    async def run(self, task, agents) -> None:
        worth, price = task.data.worth, None
        seats = [
            vf.Task(vf.TaskData(idx=task.data.idx, prompt=None, system_prompt=f"Bargain as the {name}."))
            for name in ("buyer", "seller")
        ]
        async with agents.buyer.interaction(seats[0]) as buyer, agents.seller.interaction(seats[1]) as seller:
            heard = f"It is worth {worth}."
            for _ in range(self.config.rounds):
                for side in (buyer, seller):
                    said = await side.turn(f"{heard} Name a price.")
                    if said.terminated:
                        break
                    found = re.findall(r"\d+", said.last_reply)
                    price = int(found[-1]) if found else price
                    heard = f"You hear: {said.last_reply}."
        final = vf.Task(vf.TaskData(idx=task.data.idx, prompt=f"Referee: is {price} fair? Say yes or no."))
        verdict = await agents.referee.run(final)
        gain = 0.0 if price is None else float(worth - price)
        for trace, sign in ((buyer.trace, 1.0), (seller.trace, -1.0)):
            trace.record_reward("gain", sign * gain)
            trace.record_metric("fair", float("yes" in verdict.last_reply))
            trace.info["price"] = price


class BargainTaskset(vf.Taskset[BargainTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self) -> Iterator[BargainTask]:
        for number in count():
            yield BargainTask(BargainData(idx=number, prompt=None, worth=10 + number))
