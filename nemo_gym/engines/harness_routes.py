"""Routes that agents of a provider call beside those of the model: its list of models, and probes by `HEAD`.

Any model name is served by the policy, so `claude-sonnet-4-5` and an agent's small model need no alias.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from fastapi import Response as HttpResponse

from nemo_gym.serving.app import GymApp

_ANTHROPIC = "anthropic-version"
"""The header of every request of Anthropic's clients."""

ListModels = Callable[[], Awaitable[dict[str, Any]]]


def add_harness_routes(app: GymApp, list_models: ListModels) -> None:
    """Add `GET /v1/models`, `/v1/models/<name>`, and `HEAD` of `/` and of the list."""

    async def models(request: Request) -> dict[str, Any]:
        listed = await list_models()
        return anthropic_models(listed) if _ANTHROPIC in request.headers else listed

    async def model(name: str, request: Request) -> dict[str, Any]:
        entry = {**(await list_models())["data"][0], "id": name}
        return _anthropic_model(entry) if _ANTHROPIC in request.headers else entry

    app.get("/v1/models")(models)
    app.get("/v1/models/{name:path}")(model)
    for path in ("/", "/v1/models"):
        app.head(path, include_in_schema=False)(_answer_head)


def anthropic_models(listed: Mapping[str, Any]) -> dict[str, Any]:
    """Return OpenAI's list of models in Anthropic's form."""
    entries = [_anthropic_model(entry) for entry in listed["data"]]
    names = [entry["id"] for entry in entries]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return {"data": entries, "has_more": False, **ends}


def _anthropic_model(entry: Mapping[str, Any]) -> dict[str, Any]:
    created = datetime.fromtimestamp(entry.get("created") or 0, UTC).isoformat().replace("+00:00", "Z")
    return {"type": "model", "id": entry["id"], "display_name": entry["id"], "created_at": created}


async def _answer_head() -> HttpResponse:
    return HttpResponse()
