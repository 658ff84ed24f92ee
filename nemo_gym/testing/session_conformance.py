"""A check of the sessions that environment servers open at a resources server, for its own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from fastapi import FastAPI

from nemo_gym.protocol.resources_sessions import ResourcesCloseSessionRequest, ResourcesSeedSessionRequest

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

_Request: TypeAlias = ResourcesSeedSessionRequest | ResourcesCloseSessionRequest


def check_resources_session_contract(
    app: FastAPI, seed: ResourcesSeedSessionRequest, *, keeps_state: bool
) -> None:
    """Open and close sessions through the routes of `app`. Raises `AssertionError` where the contract is broken.

    An opening and a closing can be repeated, and a session that was never opened can be closed. A server that keeps
    state must refuse to open a session that was closed before. `seed` names a session that `app` does not have.
    """
    from fastapi.testclient import TestClient  # needs httpx, which only tests have

    never_opened = seed.model_copy(
        update={"resources_session_id": f"{seed.resources_session_id}-never-opened"}
    )
    with TestClient(app, raise_server_exceptions=False) as client:
        _require_answer(client, "/seed_session", seed, "opening a session")
        _require_answer(client, "/seed_session", seed, "opening it again")
        for request, purpose in (
            (seed, "closing it"),
            (never_opened, "closing a session that was not opened"),
        ):
            close = ResourcesCloseSessionRequest(
                resources_session_id=request.resources_session_id, episode_id=request.episode_id
            )
            _require_answer(client, "/close_session", close, purpose)
            _require_answer(client, "/close_session", close, f"{purpose} again")
        if keeps_state:
            _require_refusal(client, seed, "opening a session that is closed")
            _require_refusal(client, never_opened, "opening a session after its close")


def _require_answer(client: TestClient, path: str, body: _Request, purpose: str) -> None:
    reply = _post(client, path, body)
    assert reply.status_code == 200, f"{purpose} answers {reply.status_code}: {reply.text}"
    named = reply.json().get("resources_session_id") if isinstance(reply.json(), dict) else None
    assert named == body.resources_session_id, (
        f"{purpose} answers without its resources_session_id: {reply.text}"
    )


def _require_refusal(client: TestClient, body: _Request, purpose: str) -> None:
    reply = _post(client, "/seed_session", body)
    assert reply.status_code >= 400, f"{purpose} must be refused and answers {reply.status_code}"


def _post(client: TestClient, path: str, body: _Request) -> Any:
    client.cookies.clear()
    return client.post(path, json=body.model_dump(mode="json"))
