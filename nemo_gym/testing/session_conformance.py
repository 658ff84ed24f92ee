"""A check of the sessions that environment servers open at a resources server, for its own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from nemo_gym.protocol.resources_sessions import ResourcesCloseSessionRequest, ResourcesSeedSessionRequest

if TYPE_CHECKING:
    from fastapi.testclient import TestClient


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
        check = _Check(client)
        check.answers("/seed_session", seed, "opening a session")
        check.answers("/seed_session", seed, "opening it again")
        for request, purpose in (
            (seed, "closing it"),
            (never_opened, "closing a session that was not opened"),
        ):
            close = ResourcesCloseSessionRequest(
                resources_session_id=request.resources_session_id, episode_id=request.episode_id
            )
            check.answers("/close_session", close, purpose)
            check.answers("/close_session", close, f"{purpose} again")
        if keeps_state:
            check.refuses(seed, "opening a session that is closed")
            check.refuses(never_opened, "opening a session after its close")


class _Check:
    def __init__(self, client: TestClient) -> None:
        self._client = client

    def answers(
        self, path: str, body: ResourcesSeedSessionRequest | ResourcesCloseSessionRequest, what: str
    ) -> None:
        reply = self._post(path, body)
        assert reply.status_code == 200, f"{what} answers {reply.status_code}: {reply.text}"
        named = reply.json().get("resources_session_id") if isinstance(reply.json(), dict) else None
        assert named == body.resources_session_id, (
            f"{what} answers without its resources_session_id: {reply.text}"
        )

    def refuses(self, body: ResourcesSeedSessionRequest, what: str) -> None:
        reply = self._post("/seed_session", body)
        assert reply.status_code >= 400, f"{what} must be refused and answers {reply.status_code}"

    def _post(self, path: str, body: ResourcesSeedSessionRequest | ResourcesCloseSessionRequest) -> Any:
        self._client.cookies.clear()
        return self._client.post(path, json=body.model_dump(mode="json"))
