"""The routes of control: `GET /_ng/runs`, `GET /_ng/runs/<run>` and `POST /_ng/runs/<run>/<verb>`.

The body of a request is a `ControlRequest`. The head server has them for the requests of `POST /rollouts` that it is
serving, and the endpoint of a collection for its run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import orjson
from pydantic import ValidationError

from nemo_gym.failures import InputError
from nemo_gym.names import RUNS_ROUTE
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb

_IN_PARALLEL = "num_samples_in_parallel"


class Controlled(Protocol):
    """A run that takes requests: `RunControl`, `GymControl`."""

    def describe(self) -> dict[str, Any]:
        """Return the state of the run as plain data."""

    async def handle(self, verb: ControlVerb, request: ControlRequest) -> dict[str, Any]:
        """Carry out a request, unless it is a dry run, and return its changes and the state after it."""


Runs = Mapping[str, Controlled]
"""The runs of a process by name."""


async def answer(runs: Runs, method: str, path: str, body: bytes) -> Any:
    """Return the answer to a request. Raises `InputError` with the status of one that is refused."""
    name, _, verb = path.removeprefix(RUNS_ROUTE).strip("/").partition("/")
    if not name and method == "GET":
        return {"runs": [run.describe() for run in runs.values()]}
    if (run := runs.get(name)) is None:
        known = ", ".join(runs) or "none"
        raise InputError(f"there is no run {name!r}", code="no_run", status=404, remedy=f"Runs: {known}.")
    if not verb and method == "GET":
        return run.describe()
    if verb not in set(ControlVerb) or method != "POST":
        verbs = ", ".join(ControlVerb)
        raise InputError(
            f"a run has no route {method} {path}",
            code="no_route",
            status=404,
            remedy=f"POST {RUNS_ROUTE}/{name}/VERB with one of {verbs}; GET {RUNS_ROUTE}/{name} is its state.",
        )
    return await run.handle(ControlVerb(verb), read_request(body))


def read_request(body: bytes) -> ControlRequest:
    """Return the request in a body. Raises `InputError` with all of its problems."""
    try:
        given = orjson.loads(body or b"{}")
        return ControlRequest.model_validate(given, strict=True)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the body is not JSON: {error}", code="invalid_request", status=422) from error
    except ValidationError as error:
        listed = "; ".join(dict.fromkeys(_describe_problem(each) for each in error.errors()))
        raise InputError(f"the request is not valid: {listed}", code="invalid_request", status=422) from error


def _describe_problem(problem: Mapping[str, Any]) -> str:
    field = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return f"{field}: there is no such field; fields are {', '.join(ControlRequest.model_fields)}"
    if problem["type"] == "string_pattern_mismatch":
        return f"{field}: {problem['input']!r} is no rollout; write task/repeat, such as 3/0"
    if _IN_PARALLEL in problem["loc"][:1]:  # a number or a word, of which the validator tells both
        return f"{_IN_PARALLEL}: {problem['input']!r} is neither a whole number of at least 1 nor `auto`"
    return f"{field}: {problem['msg']}"
