"""Goals for the gym's overhead on a machine with two cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perf.measure import FigurePath, Figures, leaves
from perf.validate import IMPORTED


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for a figure, or for its ratio to another figure."""

    text: str
    benchmark: str
    path: FigurePath
    bound: float
    unit: str = ""
    at_most: bool = False
    relative_to: FigurePath | None = None

    def value_in(self, figures: Figures) -> float | None:
        """Return the measured value, or None without a measurement."""
        table: dict[FigurePath, Any] = dict(leaves(figures))
        value, base = table.get(self.path), table.get(self.relative_to) if self.relative_to else 1.0
        return None if value is None or not base else float(value / base)

    def is_reached_by(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


_64, _1024 = "64 in flight, engine 0 s", "1024 in flight, engine 0 s"
_4_A_TASK = "in memory, 4 rollouts a task"
_4096, _10000 = "4096 in flight, engine 2 s", "10000 in flight, engine 2 s"


def _rollouts(placement: str, load: str, figure: str) -> FigurePath:
    return placement, "tool-calling", load, figure


def _of_placement(placement: str, rate: float, cpu_ms: float) -> tuple[Goal, ...]:
    name = "rollouts"
    where = "a process a server" if placement == "process" else "inline"
    rate_64 = _rollouts(placement, _64, "rollouts_per_s")
    return (
        Goal(f"tool-calling rollouts/s, {where}, 64 in flight, instant engine", name, rate_64, rate),
        Goal(
            f"the gym's CPU for each, {where}", name, _rollouts(placement, _64, "gym_cpu_ms"), cpu_ms, " ms",
            at_most=True,
        ),
        Goal(
            f"rollouts/s at 1,024 in flight, of those at 64, {where}", name,
            _rollouts(placement, _1024, "rollouts_per_s"), 0.9, relative_to=rate_64,
        ),
        Goal(
            f"4,096 in flight, engine 2 s, {where}: of the ideal rate", name,
            _rollouts(placement, _4096, "of_the_ideal"), 0.95,
        ),
        Goal(
            f"4,096 in flight, engine 2 s, {where}: p99 of the gym's own time", name,
            _rollouts(placement, _4096, "overhead_p99_s"), 0.25, " s", at_most=True,
        ),
        Goal(
            f"4,096 in flight, engine 2 s, {where}: failed", name,
            _rollouts(placement, _4096, "failed"), 0, at_most=True,
        ),
        Goal(
            f"10,000 in flight, engine 2 s, {where}: memory in all", name,
            _rollouts(placement, _10000, "memory_mb"), 2_000, " MB", at_most=True,
        ),
        Goal(
            f"10,000 in flight, engine 2 s, {where}: failed", name,
            _rollouts(placement, _10000, "failed"), 0, at_most=True,
        ),
    )  # fmt: skip


_MODEL_SERVER = "2 MB answer, 65,536 ids"

GOALS: tuple[Goal, ...] = (
    *_of_placement("process", 800, 2.5),
    *_of_placement("inline", 1_000, 1.2),
    *(
        Goal(
            f"requests/s of one hop of {size}, of a bare ASGI app's", "hop",
            (size, "gym, bytes passed on", "of_the_floor"), 0.6,
        )
        for size in ("1 KB", "30 KB")
    ),
    *(
        Goal(
            f"CPU of 2 MB with 65,536 ids through a model server, {way}", "hop",
            (_MODEL_SERVER, way, "server_cpu_ms"), 5, " ms", at_most=True,
        )
        for way in ("ids not asked for", "ids recorded, packed")
    ),
    Goal(
        "CPU that the record of an opened rollout adds to a call of 100 KB", "hop",
        ("100 KB call, gateway", "opened rollout", "more_cpu_ms"), 3, " ms", at_most=True,
    ),
    *(
        Goal(f"rollouts/s on {number}, of linear, engine 2 s", "nodes", (number, "of_linear"), 0.9)
        for number in ("2 nodes", "4 nodes")
    ),
    Goal(
        "CPU of a rollout on one node, of that on one machine", "nodes",
        ("1 node", "of_the_cpu_of_one_machine"), 1.1, at_most=True,
    ),
    Goal("one node ready", "nodes", ("1 node", "ready_s"), 3, " s", at_most=True),
    Goal(
        "one node of Ray ready, beyond Ray's own start", "ray_nodes",
        ("1 node", "ready_beyond_ray_s"), 3, " s", at_most=True,
    ),
    *(
        Goal(f"rollouts/s on {number} of Ray, of linear, engine 2 s", "ray_nodes", (number, "of_linear"), 0.9)
        for number in ("2 nodes", "4 nodes")
    ),
    Goal("sessions/s with two replicas on two cores, of one's", "replicas", ("2 replicas", "of_one_replica"), 1.5),
    *(
        Goal(f"sessions that saw another replica, of 1,000 at once, {number}", "replicas",
             (number, "saw_another_replica"), 0, at_most=True)
        for number in ("2 replicas", "4 replicas")
    ),
    *(
        Goal(
            f"rollouts/s of the whole command, of those without the collector, {where}", "e2e",
            (placement, "of_the_rate_without_collector"), 0.8,
        )
        for placement, where in (("process", "a process a server"), ("inline", "inline"))
    ),
    Goal("four servers ready", "startup", ("ng_run", "ready_s"), 2, " s", at_most=True),
    Goal("their memory in all", "startup", ("ng_run", "memory_mb"), 600, " MB", at_most=True),
    Goal("inline: the first model request", "startup", ("inline", "first_model_request_s"), 1, " s", at_most=True),
    Goal("`import nemo_gym`", "startup", ("import_nemo_gym_s",), 0.25, " s", at_most=True),
    Goal(
        "CPU of `ng_validate` besides the imports of implementations", "validate",
        ("ng_validate", "cpu_s"), 0.5, " s", at_most=True,
    ),
    Goal(f"CPU of `import {IMPORTED}`", "validate", (f"import {IMPORTED}", "cpu_s"), 1, " s", at_most=True),
    Goal(f"memory after `import {IMPORTED}`", "validate", (f"import {IMPORTED}", "memory_mb"), 60, " MB",
         at_most=True),
    Goal("rows of 4 KB that the collector writes per second", "collector", (_4_A_TASK, "rows_per_s"), 5_000),
    Goal("the same over HTTP, per second of its CPU", "collector", ("over HTTP", "rows_per_cpu_s"), 5_000),
    Goal(
        "the collector's memory over 200,000 rows", "collector",
        (_4_A_TASK, "peak_memory_mb"), 150, " MB", at_most=True,
    ),
    Goal(
        "its growth over 200,000 tasks, from the first rollout to the end", "collector",
        ("in memory, 1 rollout a task", "memory_growth_mb"), 50, " MB", at_most=True,
    ),
)  # fmt: skip
