"""`ng_control`: control a run that goes on. `gym ctl` has a verb for each of its requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from nemo_gym.cli.collect_rollouts import RunningGymKeys, run_in_loop
from nemo_gym.cli.command import Command, ExitCode, print_folded, several
from nemo_gym.failures import ConfigError, Failure, GymError, TransportError
from nemo_gym.names import RUNS_ROUTE, TOKEN_HEADER

if TYPE_CHECKING:
    from nemo_gym.rollouts.control.endpoint import Announced

_ANSWERS_S = 30.0
_SHOWN = 5


class ControlKeys(RunningGymKeys):
    verb: Literal["status", "pause", "resume", "drain", "cancel", "requeue", "set"] = Field(
        description="`status` shows the run and changes nothing."
    )
    run: str | None = Field(
        None,
        description="The file of its rows, or the name that `status` shows; not needed if only one run goes on below "
        "this folder.",
    )
    rollouts: str | list[str] = Field(
        default_factory=list,
        description="`cancel`, `requeue`: rollouts as task/repeat, such as 3/0; a task alone for all of its repeats.",
    )
    failure_class: str | None = Field(
        None, description="`requeue`: rollouts that failed with this class; by default all failed ones."
    )
    num_samples_in_parallel: int | Literal["auto"] | None = Field(
        None, description="`set`: rollouts in flight. Fewer than now: those in flight finish first."
    )
    max_attempts: int | None = Field(None, description="`set`: attempts at a rollout.")
    rollout_timeout_s: float | None = Field(
        None, description="`set`: seconds that an attempt which starts later may take."
    )
    dry_run: bool = Field(False, description="Show what would change, and change nothing.")
    as_json: bool = Field(False, alias="json", description="Print JSON.")


COMMAND = Command(
    name="ng_control",
    summary="Pause, resume, drain or retune a run that goes on; cancel or requeue its rollouts.",
    example="ng_control +verb=pause +run=results/rollouts.jsonl",
    keys=ControlKeys,
    exit_codes={
        ExitCode.COMPLETE: "accepted, or nothing had to change",
        ExitCode.FATAL: "the run does not answer, or could not carry the request out",
        ExitCode.BAD_INPUT: "wrong usage, no such run or rollout, or a request that its state refuses",
    },
)
_OF_REQUEST = ("failure_class", "num_samples_in_parallel", "max_attempts", "rollout_timeout_s")


def control(keys: ControlKeys) -> int:
    answers = run_in_loop(_ask(keys))
    if keys.as_json:
        print(json.dumps(answers if keys.verb == "status" else answers[0], indent=2))
        return ExitCode.COMPLETE
    for number, answer in enumerate(answers):
        if number:
            print()
        print_folded("\n".join(_describe(answer)))
    return ExitCode.COMPLETE


async def _ask(keys: ControlKeys) -> Sequence[Mapping[str, Any]]:
    found = await _find_runs(keys)
    if keys.verb == "status":
        return [await _send(each, "GET", "") for each in found]
    if len(found) > 1:
        names = ", ".join(_name(each) for each in found)
        raise ConfigError(
            f"several runs go on here: {names}",
            code="several_runs",
            remedy=f"Name one: gym ctl {keys.verb} {_name(found[0])}",
        )
    body = {name: value for name in _OF_REQUEST if (value := getattr(keys, name)) is not None}
    body |= {"rollouts": several(keys.rollouts), "dry_run": keys.dry_run, "by": "gym ctl"}
    return [await _send(found[0], "POST", f"/{keys.verb}", body)]


async def _find_runs(keys: ControlKeys) -> Sequence[Announced]:
    """Return the runs that a request may be about: the named one, or all that go on. Raises `ConfigError`."""
    from nemo_gym.rollouts.control.endpoint import find_announced, read_announcement
    from nemo_gym.rollouts.output.files import RunFiles, find_ending

    if keys.run is not None and find_ending(Path(keys.run)) is not None:
        announced = read_announcement(RunFiles.from_output(Path(keys.run)).control)
        if announced is None:
            raise _refuse_ended(Path(keys.run))
        return [announced]
    found = [*find_announced(Path.cwd()), *await _find_posted(keys)]
    named = [each for each in found if keys.run in (None, each.run)]
    if not named:
        others = f" Those that do: {', '.join(map(_name, found))}." if found else ""
        what = f"no run named {keys.run!r} goes on" if keys.run is not None else "no run goes on"
        raise ConfigError(
            f"{what} below {Path.cwd()}",
            code="no_run",
            remedy=f"Name the file of its rows: gym ctl {keys.verb} FILE.{others}",
        )
    return named


def _refuse_ended(rows: Path) -> ConfigError:
    return ConfigError(
        f"no run writes {rows} now" if rows.exists() else f"there is no run {rows}",
        code="no_run",
        remedy="`gym ctl status` lists the runs that go on below this folder. A run that has ended is continued by its "
        "command with +resume_from_cache=true (gym: --resume).",
    )


async def _find_posted(keys: ControlKeys) -> list[Announced]:
    """Return the requests of `POST /rollouts` that the gym of this folder serves; none without a gym."""
    from nemo_gym.rollouts.control.endpoint import Announced
    from nemo_gym.transport.directory import head_url

    try:
        gym = await keys.find_gym()
    except ConfigError as error:
        if error.failure.code == "no_gym_here" and keys.head_server.port is None:
            return []
        raise
    url = head_url(gym.config)
    try:
        told = await _send(Announced("", url, gym.token or "", Path()), "GET", "")
    except GymError:  # its servers are starting, or ending
        return []
    runs = [each for each in told["runs"] if keys.run == each["run"] or not _is_idle(each)]
    return [Announced(each["run"], url, gym.token or "", Path()) for each in runs]


def _is_idle(told: Mapping[str, Any]) -> bool:
    """Return whether a run is that of a gym's servers, has no caller and is unchanged."""
    return "waiting" in told["counts"] and not told["is_touched"]


async def _send(
    run: Announced, method: str, rest: str, body: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    """Return the answer of a run. Raises `ConfigError` for a refusal, `TransportError` if the run does not answer."""
    from nemo_gym.transport import Call, call_once
    from nemo_gym.transport.caller import read_reply_failure

    path = f"{RUNS_ROUTE}/{run.run}".rstrip("/") + rest
    headers = {TOKEN_HEADER: run.token} | ({"content-type": "application/json"} if body is not None else {})
    content = json.dumps(body).encode() if body is not None else None
    reply = await call_once(run.url, Call(method, path, content, headers), timeout_s=_ANSWERS_S)
    if reply.ok:
        answer: Mapping[str, Any] = reply.json()
        return answer
    error = ConfigError if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR else TransportError
    unknown = Failure(error.boundary, "not_controlled", f"the run answers HTTP {reply.status}")
    failure = read_reply_failure(reply) or unknown
    raise error(failure.message, code=failure.code, remedy=failure.remedy)


def _name(run: Announced) -> str:
    """Return the shortest name of a run that the command understands."""
    if run.place.name:
        rows = run.place.with_name(f"{run.run}.jsonl")
        return str(rows.relative_to(Path.cwd())) if rows.is_relative_to(Path.cwd()) else str(rows)
    return run.run


def _describe(answer: Mapping[str, Any]) -> list[str]:
    """Return an answer as lines for a person."""
    changes = answer.get("changes")
    told = [f"{'would change: ' if answer.get('dry_run') else ''}{change}" for change in changes or ()]
    if changes is not None:
        return told or [f"nothing changes: the run is {answer['phase']}"]
    counts = answer["counts"]
    in_flight = answer["in_flight"]
    if "waiting" in counts:
        return [*_describe_servers(answer)]
    shown = [f"{name} for {seconds:g} s" for name, seconds in [*in_flight.items()][:_SHOWN]]
    failed = ", ".join(f"{name} {count}" for name, count in answer["failed"].items())
    return [
        f"{answer['run']}: {answer['phase']}, {counts['settled']:,}/{counts['planned']:,} rollouts",
        f"  in flight: {len(in_flight)} of {answer['num_samples_in_parallel']}"
        + (f"; the longest: {', '.join(shown)}" if shown else ""),
        f"  failed: {failed or 'none'}",
        *(f"  waiting: {outage}" for outage in counts.get("outages", ())),
        *_describe_spent(counts.get("spent")),
        f"  max_attempts {answer['max_attempts']}, rollout_timeout_s {answer['rollout_timeout_s']}",
        f"  next: gym ctl {'resume' if answer['phase'] == 'paused' else 'pause'}, or set, drain, cancel, requeue "
        "(each with --dry-run)",
    ]


def _describe_servers(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the state of a gym's servers, whose attempts no collection controls."""
    counts, in_flight = answer["counts"], answer["in_flight"]
    shown = [f"{name} for {seconds:g} s" for name, seconds in [*in_flight.items()][:_SHOWN]]
    most = answer["num_samples_in_parallel"]
    limit = "" if most == "auto" else f" of {most}"
    yield f"{answer['run']}: {answer['phase']}, attempts of programs that call the agents themselves"
    yield f"  in flight: {len(in_flight) + counts['unnamed']}{limit}, waiting: {counts['waiting']}" + (
        f"; the longest: {', '.join(shown)}" if shown else ""
    )
    verb = "resume" if answer["phase"] == "paused" else "pause"
    yield f"  next: gym ctl {verb} {answer['run']}, or set, drain, cancel"


def _describe_spent(spent: Mapping[str, float] | None) -> Iterator[str]:
    if spent is not None:
        cost = f", cost {spent['cost']:,.4f}" if spent["cost"] else ""
        yield f"  spent: {spent['tokens']:,.0f} tokens{cost}, {spent['seconds']:,.0f} s of attempts"


main = COMMAND.entry_point(control)


if __name__ == "__main__":
    main()
