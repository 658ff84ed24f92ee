"""`ng_scale`: add and remove replicas of the servers of a running gym."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import Field

from nemo_gym.cli.collect_rollouts import RunningGymKeys, run_in_loop
from nemo_gym.cli.command import Command, ExitCode
from nemo_gym.failures import ConfigError, Failure
from nemo_gym.names import DRAIN_TIMEOUT_S, SCALE_ROUTE, TOKEN_HEADER

_STARTUP_S = 7200.0
"""Seconds in which added replicas have started or failed; an engine may load for long."""
_SHOWN_SESSIONS = 10


class ScaleKeys(RunningGymKeys):
    servers: dict[str, int] = Field(
        description="The number of replicas that each server shall have: +servers.my_environment=8."
    )
    drain_timeout_s: float = Field(
        DRAIN_TIMEOUT_S,
        ge=0,
        description="Seconds that replicas to be removed may take to finish their sessions. Rollouts of sessions that "
        "are lost are attempted again.",
    )
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_scale",
    summary="Add and remove replicas of servers while a gym runs on several machines.",
    example="ng_scale +servers.my_environment=8 +servers.policy_model=2",
    keys=ScaleKeys,
    exit_codes={
        ExitCode.COMPLETE: "added replicas are ready, removed ones have ended",
        ExitCode.FATAL: "an added replica did not start; the server has the replicas that it had",
        ExitCode.BAD_INPUT: "wrong usage, an unknown server, no room, or a gym on one machine; nothing was changed",
    },
)


def scale(keys: ScaleKeys) -> int:
    answer = run_in_loop(_ask_gym(keys))
    if keys.as_json:
        print(json.dumps(answer, indent=2))
        return ExitCode.COMPLETE
    for name, change in answer["servers"].items():
        replicas = "replica" if change["after"] == 1 else "replicas"
        print(f"{name}: {change['after']} {replicas}, before {change['before']}")
        if lost := change["lost_sessions"]:
            shown = ", ".join(lost[:_SHOWN_SESSIONS]) + (", …" if len(lost) > _SHOWN_SESSIONS else "")
            print(f"{name}: {len(lost)} sessions were lost, whose rollouts are attempted again: {shown}")
    return ExitCode.COMPLETE


async def _ask_gym(keys: ScaleKeys) -> Mapping[str, Any]:
    """Return the answer of the head server. Raises `ConfigError` for a refusal, `GymError` for a failure."""
    from nemo_gym.launch.errors import LaunchError
    from nemo_gym.tls import read_ca
    from nemo_gym.transport import Call, call_once
    from nemo_gym.transport.caller import read_reply_failure
    from nemo_gym.transport.directory import head_url

    gym = await keys.find_gym()
    asked = {"servers": keys.servers, "drain_timeout_s": keys.drain_timeout_s}
    headers = {"content-type": "application/json"} | ({TOKEN_HEADER: gym.token} if gym.token else {})
    if sys.stderr.isatty() and not keys.as_json:
        print("waiting until the replicas are ready, or have finished their sessions", file=sys.stderr)
    reply = await call_once(
        head_url(gym.config),
        Call("POST", SCALE_ROUTE, json.dumps(asked).encode(), headers),
        ca=read_ca(gym.config),
        timeout_s=keys.drain_timeout_s + _STARTUP_S,
    )
    if reply.ok:
        answer: Mapping[str, Any] = reply.json()
        return answer
    error = ConfigError if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR else LaunchError
    unknown = Failure(error.boundary, "not_scaled", f"the head server answers HTTP {reply.status}")
    failure = read_reply_failure(reply) or unknown
    raise error(failure.message, code=failure.code, remedy=failure.remedy)


main = COMMAND.entry_point(scale)
