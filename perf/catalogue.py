"""The benchmarks in the order of `python -m perf all`, and the figures that the docs show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from perf.measure import FigurePath


@dataclass(frozen=True, slots=True)
class Panel:
    """A plot of figures of one unit over the commits."""

    title: str
    curves: Mapping[str, FigurePath]
    """Label → the figure."""
    goal: float | None = None
    """Drawn as a separate line."""


Columns: TypeAlias = Mapping[str, str]
"""Figure → heading, with the unit."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The presentation of a benchmark."""

    summary: str
    columns: Columns | None = None
    """The columns of its table; None for all figures. Each group of figures has a row."""
    panels: tuple[Panel, ...] = ()
    options: tuple[str, ...] = field(default=())
    """Its options in `python -m perf all`."""


def _rollouts(figure: str, episode: str, *loads: str) -> dict[str, FigurePath]:
    return {
        f"{placement}, {load.split(',')[0]}": (placement, episode, load, figure)
        for placement in ("process", "inline")
        for load in loads
    }


_INSTANT, _MANY = "64 in flight, engine 0 s", "1024 in flight, engine 0 s"
_4_A_TASK, _1_A_TASK = "in memory, 4 rollouts a task", "in memory, 1 rollout a task"
_MODEL_SERVER = "2 MB answer, 65,536 ids"

BENCHMARKS: Mapping[str, Shown] = {
    "startup": Shown(
        "seconds until `ng_run` is ready, memory, processes, `import nemo_gym`",
        {
            "ready_s": "ready s",
            "stop_s": "stopped s",
            "memory_mb": "memory MB",
            "processes": "processes",
            "first_model_request_s": "first model request s",
            "import_nemo_gym_s": "`import nemo_gym` s",
        },
        (
            Panel("ng_run ready, s", {"four servers": ("ng_run", "ready_s")}, 2.0),
            Panel("inline: first model request, s", {"from the command on": ("inline", "first_model_request_s")}, 1.0),
            Panel("memory of all processes, MB", {"four servers": ("ng_run", "memory_mb")}, 600.0),
        ),
        ("+runs=5",),
    ),
    "validate": Shown(
        "CPU of `ng_validate` besides the imports of implementations; CPU and memory of "
        "`import nemo_gym.base_resources_server`",
        {"cpu_s": "CPU s", "forks_cpu_s": "CPU s of its forks, with the imports", "memory_mb": "memory MB"},
        (),
        ("+runs=5",),
    ),
    "hop": Shown(
        "one hop with 1 KB, 30 KB and 2 MB bodies, against a bare ASGI app with the same client; "
        "2 MB with 65,536 token ids through a model server",
        {
            "requests_per_s": "requests/s",
            "of_the_floor": "of the floor",
            "server_cpu_ms": "server CPU ms",
            "more_than_the_floor_cpu_ms": "more than the floor, CPU ms",
            "times_the_floor": "times the floor",
            "more_cpu_ms": "more than without a rollout, CPU ms",
        },
        (
            Panel(
                "requests/s, of a bare ASGI app's",
                {
                    f"{size}, {way}": (size, f"gym, {way}", "of_the_floor")
                    for size in ("1 KB", "30 KB")
                    for way in ("bytes passed on", "parsed and dumped")
                },
                0.6,
            ),
            Panel(
                "CPU ms of a 2 MB answer through a model server",
                {
                    name: (_MODEL_SERVER, name, "server_cpu_ms")
                    for name in ("parsed and dumped once", "ids not asked for", "ids recorded, packed")
                },
                5.0,
            ),
        ),
        ("+runs=3",),
    ),
    "nodes": Shown(
        "rollouts per second and CPU per rollout on 1, 2 and 4 nodes of this machine, 256 in flight each, engine 2 s",
        {
            "rollouts_per_s": "rollouts/s",
            "of_linear": "of linear",
            "gym_cpu_ms": "gym CPU ms",
            "of_the_cpu_of_one_machine": "of the CPU of one machine",
            "cores_busy": "cores busy",
            "p99_s": "p99 s",
            "failed": "failed",
            "ready_s": "ready s",
        },
        (),
        ("+runs=3",),
    ),
    "ray_nodes": Shown(
        "the same on the nodes of a Ray cluster that runs already; seconds until its servers are ready beyond those of "
        "a job that connects to Ray and starts an actor on every node (needs `.venvs/ray`)",
        {
            "rollouts_per_s": "rollouts/s",
            "of_linear": "of linear",
            "gym_cpu_ms": "gym CPU ms",
            "of_the_cpu_of_one_machine": "of the CPU of one machine",
            "ray_cpu_ms": "Ray CPU ms",
            "p99_s": "p99 s",
            "failed": "failed",
            "ready_s": "ready s",
            "ray_s": "Ray's own s",
            "ready_beyond_ray_s": "beyond that",
        },
        (),
        ("+runs=3",),
    ),
    "rollouts": Shown(
        "rollouts per second, CPU per rollout, p50 and p99, memory: single-step, tool-calling and 20-turn episodes, "
        "1 to 10,000 in flight, an instant engine and one of 2 s, with a process a server and inline",
        {
            "rollouts_per_s": "rollouts/s",
            "gym_cpu_ms": "gym CPU ms",
            "times_the_floor": "times the floor",
            "engine_cpu_ms_a_call": "stub CPU ms a call",
            "engine_core_share": "stub's core",
            "cores_busy": "cores busy",
            "p50_s": "p50 s",
            "p99_s": "p99 s",
            "overhead_p99_s": "gym's own p99 s",
            "of_the_ideal": "of the ideal",
            "memory_mb": "memory MB",
            "failed": "failed",
        },
        (
            Panel("tool-calling, rollouts/s", _rollouts("rollouts_per_s", "tool-calling", _INSTANT, _MANY), 800.0),
            Panel("tool-calling, gym CPU ms a rollout", _rollouts("gym_cpu_ms", "tool-calling", _INSTANT, _MANY)),
            Panel("single-step, gym CPU ms a rollout", _rollouts("gym_cpu_ms", "single-step", _INSTANT, _MANY)),
            Panel("20 turns, gym CPU ms a rollout", _rollouts("gym_cpu_ms", "20-turn", _INSTANT, _MANY)),
        ),
        ("+runs=3",),
    ),
    "e2e": Shown(
        "rollouts per second and CPU per rollout of the whole `ng_e2e_collect_rollouts`, against those without the "
        "collector: 20,000 tool-calling rollouts, 256 in flight, an instant engine, both placements",
        {
            "rollouts_per_s": "rollouts/s",
            "collecting_rollouts_per_s": "without start and stop",
            "rollouts_per_s_without_collector": "without the collector",
            "of_the_rate_without_collector": "of that rate",
            "gym_cpu_ms": "gym CPU ms",
            "engine_cpu_ms": "stub CPU ms",
            "cpu_ms": "all CPU ms",
            "cpu_ms_without_collector": "without the collector",
            "of_the_cpu_without_collector": "that, of all CPU ms",
            "seconds": "s in all",
        },
        (
            Panel(
                "of the rate without the collector",
                {placement: (placement, "of_the_rate_without_collector") for placement in ("process", "inline")},
                0.8,
            ),
        ),
        ("+runs=1",),
    ),
    "peer": Shown(
        "whole commands beside those of an installed reference, by turns, with and without token ids "
        "(`+reference=…/bin/python`)",
        {
            "rollouts_per_s": "rollouts/s",
            "servers_cpu_ms": "servers' CPU ms",
            "collector_cpu_ms": "collector's CPU ms",
            "servers_memory_mb": "servers' memory MB",
            "collector_memory_mb": "collector's peak MB",
            "engine_cpu_ms": "stub CPU ms",
            "row_kb": "KB a row",
            "times_rollouts_per_s": "times the reference's rate",
            "times_servers_cpu_ms": "times less CPU of servers",
            "times_servers_memory_mb": "times less memory of servers",
            "python": "Python of the reference",
            "is_python_allowed": "which its package allows",
            "failure": "failure",
        },
        (),
        ("+runs=3",),
    ),
    "collector": Shown(
        "rows of 4 KB per second, memory over 200,000 of them, and the time to resume a run; the collector alone",
        {
            "rows_per_s": "rows/s",
            "rows_per_cpu_s": "rows/s of CPU",
            "cpu_ms_a_row": "CPU ms a row, start and end included",
            "stub_cpu_ms_a_row": "the stub's",
            "collecting_memory_mb": "memory while collecting MB",
            "peak_memory_mb": "peak memory MB",
            "memory_growth_mb": "growth from the first rollout MB",
            "until_first_rollout_s": "until the first rollout s",
            "seconds": "in all s",
        },
        (
            Panel(
                "rows/s of CPU",
                {way: (way, "rows_per_cpu_s") for way in (_4_A_TASK, _1_A_TASK, "over HTTP")},
                5_000.0,
            ),
            Panel(
                "peak memory over 200,000 rows, MB",
                {
                    "4 rollouts a task": (_4_A_TASK, "peak_memory_mb"),
                    "1 rollout a task": (_1_A_TASK, "peak_memory_mb"),
                },
                150.0,
            ),
        ),
        ("+runs=1",),
    ),
    "replicas": Shown(
        "sessions per second of an environment with state in memory, by the number of its replicas; 1,000 at once",
        {
            "sessions_per_s": "sessions/s",
            "of_one_replica": "of one replica",
            "saw_another_replica": "saw another replica",
        },
        (),
        ("+runs=3",),
    ),
    "verifiers": Shown(
        "scores per second and CPU of each environment's `verify` on its example rows",
        {"scores_per_s": "scores/s", "cpu_ms": "CPU ms"},
        (),
        ("+runs=1",),
    ),
    "control": Shown(
        "seconds from a request of control to its effect at the engine, 16 in flight, engine 0.5 s",
        {
            "pause_s": "pause s",
            "resume_s": "resume s",
            "set_s": "set s",
            "cancel_s": "cancel s",
            "drain_s": "drain s",
        },
        (),
        ("+runs=3",),
    ),
    "tokens": Shown("bytes and CPU for 1 to 100 turns with token ids", None, (), ("+runs=1",)),
    "token_path": Shown(
        "the price of a turn with token ids by stage, at 20 and 100 turns, beside the floor of the same bytes",
        {
            "cpu_ms": "CPU ms a turn",
            "cpu_us_a_token": "µs a token",
            "floor_ms": "floor ms",
            "model_server_ms": "model server",
            "agent_and_row_ms": "agent, driver, row",
            "tool_ms": "tool",
            "verify_ms": "verify",
            "session_ms": "session",
            "collector_ms": "collector",
            "export_ms": "export",
            "early_turn_ms": "model server at turn 5",
            "late_turn_ms": "at the end",
            "instructions": "instructions",
            "row_kb": "KB of the row",
        },
        (),
        ("+runs=5",),
    ),
    "durable": Shown(
        "CPU that the record of a durable attempt adds to a model call, and the rate of the whole command with records",
        {
            "rollouts_per_s": "rollouts/s",
            "of_the_rate_without_records": "of the rate without records",
            "more_cpu_us": "more CPU µs a call",
            "more_than_gateway_cpu_us": "more than the gateway's record, µs",
            "files_cpu_us": "of its system calls alone, µs",
            "line_bytes": "bytes a call",
        },
        (),
        ("+runs=5",),
    ),
    "sessions": Shown(
        "CPU of a rollout in a session against one of POST /rollouts, in groups of 8",
        {"gym_us": "CPU µs a rollout, the gym's", "head_us": "the head's alone"},
        (),
        ("+runs=5",),
    ),
    "busy": Shown(
        "the share of 512 rollouts in flight by each policy of staleness of a session, beside the simulated share",
        {"simulated": "simulated", "busy": "measured", "difference": "difference"},
        (),
        ("+runs=1",),
    ),
    "calls": Shown(
        "Python calls and bytecode instructions of one rollout: the counts are the same on every machine",
        {
            "calls_per_rollout": "calls a rollout",
            "instructions_per_rollout": "instructions a rollout",
            "in_uvicorn": "of uvicorn",
            "in_python": "Python",
            "in_other_libraries": "other libraries",
            "in_serving": "`serving`",
            "in_transport": "`transport`",
            "in_engines": "`engines`",
            "in_responses": "`responses`",
            "in_episodes": "`episodes`",
            "in_agents": "`agents`",
            "in_rows": "`rows`",
            "in_other_rooms": "other rooms",
        },
        (
            Panel(
                "bytecode instructions of a rollout",
                {way: (way, "instructions_per_rollout") for way in ("inline", "over sockets")},
            ),
        ),
        ("+runs=1",),
    ),
    "profile": Shown(
        "the shares of a tool-calling rollout's CPU, by a sampling profiler (needs `py-spy`)",
        {"process": "a process a server, %", "inline": "inline, %"}, (), ("+runs=1",),
    ),
}  # fmt: skip
