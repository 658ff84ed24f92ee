"""Forged requests to opened rollouts and to tools over MCP: each is refused, and none has an effect.

`FORGERIES` is the whole table. The same requests with the right key or name are answered (the last two tests).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient

from nemo_gym import clock
from tests.engines.gateway.rollouts import HELLO, WITH_TOKEN, gateway, opened, record_of
from tests.resources.test_mcp import client_of, rpc, token_of

CALL, READ, OPEN = "/v1/responses", "/ng-rollouts/{}", "/ng-rollouts"
Keys = Mapping[str, str]
"""The keys of four rollouts: of the forger's own, `mine`, and of `other`, `sealed` and `expired`."""


class Forgery(NamedTuple):
    """A request that must be refused."""

    headers: Callable[[Keys], dict[str, str]]
    path: str = CALL
    methods: tuple[str, ...] = ("POST",)
    statuses: tuple[int, ...] = (401, 403)


def mine(keys: Keys) -> dict[str, str]:
    return {"authorization": f"Bearer {keys['mine']}"}


def key(forged: Callable[[str, str], str]) -> Forgery:
    """Return a call with a key made of the name and the proof of the forger's own."""
    return Forgery(lambda keys: {"x-api-key": forged(*keys["mine"].split("."))})


def named(rollout: str) -> str:
    return "ngr_" + base64.urlsafe_b64encode(rollout.encode()).decode().rstrip("=")


FORGED_KEYS = {
    "no proof": key(lambda name, proof: name),
    "an empty proof": key(lambda name, proof: f"{name}."),
    "no name": key(lambda name, proof: f"ngr_.{proof}"),
    "neither name nor proof": key(lambda name, proof: "ngr_."),
    "a changed proof": key(lambda name, proof: f"{name}.{proof[:-1]}{'1' if proof[-1] == '0' else '0'}"),
    "a longer proof": key(lambda name, proof: f"{name}.{proof}0"),
    "a proof in capitals": key(lambda name, proof: f"{name}.{proof.upper()}0"),
    "a proof that is no ASCII": key(lambda name, proof: f"{name}." + "é" * 64),
    "another rollout's name": key(lambda name, proof: f"{named('other')}.{proof}"),
    "a name that is a path": key(lambda name, proof: f"{named('../..')}.{proof}"),
    "a name that is no base64": key(lambda name, proof: f"ngr_!!!.{proof}"),
    "the prefix twice": key(lambda name, proof: f"ngr_{name}.{proof}"),
    "the key of a sealed rollout": Forgery(lambda keys: {"x-api-key": keys["sealed"]}, statuses=(409,)),
    "the key of an expired rollout": Forgery(lambda keys: {"x-api-key": keys["expired"]}),
}
OTHER_ROLLOUTS = {
    "another rollout in the path": Forgery(mine, f"/ng-rollout/other{CALL}"),
    "another rollout in the path, without a key": Forgery(lambda keys: {}, f"/ng-rollout/other{CALL}"),
    "an unopened rollout in the path": Forgery(mine, f"/ng-rollout/unopened{CALL}"),
    "another rollout in the session header": Forgery(lambda keys: {**mine(keys), "x-ng-session": "other"}),
    "another rollout in an agent's session header": Forgery(
        lambda keys: {"x-claude-code-session-id": "other"}
    ),
    "another rollout in a forged cookie": Forgery(
        lambda keys: {"cookie": "ng_session_policy_model=other.00"}, f"/ng-rollout/other{CALL}"
    ),
}
CONTROL_ROUTES = {
    "opening a rollout": Forgery(mine, OPEN),
    "reading its own record": Forgery(mine, READ.format("mine"), ("GET",)),
    "reading another's record": Forgery(mine, READ.format("other"), ("GET",)),
    "sealing its own rollout": Forgery(mine, READ.format("mine") + "/seal"),
    "sealing another's rollout": Forgery(mine, READ.format("other") + "/seal"),
    "deleting its own record": Forgery(mine, READ.format("mine"), ("DELETE",)),
    "deleting another's record": Forgery(mine, READ.format("other"), ("DELETE",)),
    "its key as the run's token": Forgery(
        lambda keys: {"x-ng-token": keys["mine"]}, READ.format("other"), ("GET", "DELETE")
    ),
    "its key as an API key": Forgery(
        lambda keys: {"x-api-key": keys["mine"]}, READ.format("other"), ("GET", "DELETE")
    ),
    "setting the policy's version": Forgery(mine, "/policy_version"),
    "the preflight": Forgery(mine, "/preflight", ("GET",)),
    "the notes": Forgery(mine, "/_ng/notes", ("GET",)),
    "the statistics": Forgery(mine, "/_ng/stats", ("GET",)),
    "the metrics": Forgery(mine, "/metrics", ("GET",)),
    "the schema": Forgery(mine, "/openapi.json", ("GET",)),
}
PATHS = {
    path: Forgery(mine, path, ("GET", "POST", "DELETE"), (401, 403, 404, 405))
    for path in (
        "/ng-rollout/mine/ng-rollouts",
        "/ng-rollout/mine/ng-rollouts/other",
        "/ng-rollout/mine/v1/../../ng-rollouts/other",
        "/ng-rollout/mine/v1/..%2f..%2fng-rollouts%2fother",
        "/ng-rollout/mine/v1/%2e%2e/ng-rollouts/other",
        "/ng-rollout/mine%2f..%2fother/v1/responses",
        "/ng-rollout/../ng-rollout/other/v1/responses",
        "/ng-rollout/mine/ng-rollout/other/v1/responses",
        "/ng-rollout/mine/v1/ng-rollout/other/v1/responses",
        "/ng-rollout/other%00/v1/responses",
        "//ng-rollouts/other",
        "/ng-rollouts//other",
        "/ng-rollouts/other/",
        "/NG-ROLLOUTS/other",
        "/ng-rollouts/../ng-rollouts/other",
        "/ng-rollouts/other%2fseal",
        "/ng-rollout/other/training-token-capture/v1/responses",
    )
}
TOOLS = {
    "a tool outside the row": ("write", "own"),
    "the verifier": ("verify", "own"),
    "the verifier as a path": ("/verify", "own"),
    "the verifier as a path from a tool": ("../verify", "own"),
    "opening the session again": ("seed_session", "own"),
    "a tool without a token": ("erase", None),
    "a tool with an invented token": ("erase", "forged"),
    "a tool with the name of the server": ("erase", "notebook.0123"),
    "a tool with the session's cookie": ("erase", "cookie"),
}
"""The name of a tool, and the token: `own` is that of a session whose row allows `erase` only."""
FORGERIES = {**FORGED_KEYS, **OTHER_ROLLOUTS, **CONTROL_ROUTES, **PATHS}


class LaterSources(clock.Sources):
    """Clocks that are an hour ahead."""

    def monotonic(self) -> float:
        return super().monotonic() + 3600

    def wall_clock(self) -> float:
        return super().wall_clock() + 3600


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with clock.replaced_by(LaterSources()):
        yield gateway(tmp_path)


def keys_at(client: TestClient) -> dict[str, str]:
    """Open the four rollouts, and return their keys."""
    rollouts = {name: opened(client, rollout_id=name) for name in ("mine", "other", "sealed")}
    assert client.post("/ng-rollouts/sealed/seal", headers=WITH_TOKEN).status_code == 200
    with clock.replaced_by(clock.Sources()):
        rollouts["expired"] = opened(client, rollout_id="expired", expires_s=60)
    return {name: rollout["key"] for name, rollout in rollouts.items()}


def states_at(client: TestClient) -> dict[str, tuple[int, bool]]:
    """Return the number of calls of each rollout, and whether it is sealed."""
    records = {
        name: record_of(client, {"rollout_id": name}) for name in ("mine", "other", "sealed", "expired")
    }
    return {name: (len(record["calls"]), record["sealed"]) for name, record in records.items()}


def test_the_table_has_the_forgeries_of_every_kind() -> None:
    kinds: tuple[Mapping[str, Any], ...] = (FORGED_KEYS, OTHER_ROLLOUTS, CONTROL_ROUTES, PATHS, TOOLS)
    assert len(FORGERIES) + len(TOOLS) == sum(map(len, kinds)) >= 25


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused_and_has_no_effect(client: TestClient, name: str) -> None:
    forgery, keys = FORGERIES[name], keys_at(client)
    before = states_at(client)
    headers = {field.encode(): value.encode("latin-1") for field, value in forgery.headers(keys).items()}
    for method in forgery.methods:
        answer = client.request(method, f"http://testserver{forgery.path}", json=HELLO, headers=headers)
        assert answer.status_code in forgery.statuses, (method, answer.text)
    assert states_at(client) == before


@pytest.mark.parametrize("name", TOOLS)
def test_a_forged_tool_call_is_refused(name: str) -> None:
    tool, proof = TOOLS[name]
    client = client_of()
    own = token_of(client, {"allowed": ["erase"]})
    client.post("/seed_session", json={"allowed": ["erase"]})
    (cookie,) = client.cookies.values()
    client.cookies.clear()
    token = {"own": own, "cookie": cookie}.get(proof, proof) if proof is not None else None
    answer = rpc(client, "tools/call", token, name=tool, arguments={"text": "a"})
    assert answer.get("isError") is True or "message" in answer, answer


def test_the_genuine_requests_are_answered(client: TestClient) -> None:
    keys = keys_at(client)
    for path in (CALL, f"/ng-rollout/mine{CALL}"):
        assert client.post(path, json=HELLO, headers=mine(keys)).status_code == 200
    assert states_at(client)["mine"] == (2, False)
    assert client.post("/ng-rollouts/mine/seal", headers=WITH_TOKEN).status_code == 200
    assert client.delete("/ng-rollouts/mine", headers=WITH_TOKEN).status_code == 200


def test_the_tool_of_the_row_is_called() -> None:
    client = client_of()
    own = token_of(client, {"allowed": ["erase"]})
    assert rpc(client, "tools/call", own, name="erase")["isError"] is False
