"""Who plays an episode of verifiers: each run of a seat has a model of its own, so that its calls are one record.

An episode may let one seat run several times, such as attempts that compete. The option `runs` says how often, since
an environment does not declare it: `{golfer: 2}` makes the seats `golfer.1` and `golfer.2`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from verifiers.v1.clients import ModelContext

from ..faults import HostError


def name_runs(seats: list[str], runs: dict[str, Any]) -> dict[str, list[str]]:
    """Return the names of the runs of each seat. Raises `HostError` for an option that cannot be used."""
    for seat, number in runs.items():
        if seat not in seats:
            raise HostError("bad_request", f"runs: there is no seat {seat!r}, but {', '.join(seats)}")
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise HostError("bad_request", f"runs: {number!r} of {seat} is no number of runs")
    return {
        seat: [f"{seat}.{each + 1}" for each in range(runs[seat])] if runs.get(seat, 1) > 1 else [seat]
        for seat in seats
    }


class Cast:
    """The models of one episode."""

    def __init__(self, runs: Mapping[str, list[str]], contexts: Mapping[str, ModelContext]) -> None:
        self._runs = runs
        self._contexts = contexts
        self._waiting = {seat: iter(names) for seat, names in runs.items()}
        self._overrun: str | None = None

    @property
    def any_model(self) -> ModelContext:
        return next(iter(self._contexts.values()))

    def take(self, agents: Any) -> Any:
        """Let each run of these agents call the model of its own name."""
        for seat in self._runs:
            self._take_agent(seat, getattr(agents, seat))
        return agents

    def rename(self, episode: Any) -> None:
        """Name each run of an episode. Raises `HostError` if a seat ran more often than it has models."""
        if self._overrun is not None:
            seat, runs = self._overrun, len(self._runs[self._overrun])
            told = f"the seat {seat} runs more than {runs} times in an episode, and each run is a record of its own"
            raise HostError(
                "unsupported",
                f"{told}: state their number, such as '+options={{runs: {{{seat}: {runs + 1}}}}}'",
            )
        names = {context.client.api_key_var: name for name, context in self._contexts.items()}
        for trace in episode.traces:
            trace.agent.name = names[trace.agent.config.client.api_key_var]

    def _take_agent(self, seat: str, agent: Any) -> None:
        prepare = agent._rollout_params

        def prepare_run(*given: Any) -> dict[str, Any]:
            name = next(self._waiting[seat], None)
            if name is None:
                self._overrun = seat
                raise RuntimeError(f"the seat {seat} runs too often")
            context = self._contexts[name]
            ctx = dataclasses.replace(agent.ctx, client=context.client, model=context.model)
            called = {"client": context.client, "model": context.model}
            config = agent.config.model_copy(update=called)
            return {**prepare(*given), "ctx": ctx, "agent_config": config}

        agent._rollout_params = prepare_run
