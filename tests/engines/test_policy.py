"""A trainer posts the policy's version: every call records it, and calls of old versions can be dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.engines.policy import PolicyMember, PolicyUpdate
from nemo_gym.failures import EngineError
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.names import REPLICA_PORTS_KEY
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.records import RECORD_FIELD
from nemo_gym.transport import Call, InMemoryTransport, Reply
from nemo_gym.transport.control import CONTROL_ROUTES
from nemo_gym.transport.server_client import ServerClient
from responses_api_models.vllm_model.app import VLLMModel
from tests.tokens.conversations import Conversation, Ground, model_server


async def test_every_call_is_stamped_with_the_version_that_it_began_with() -> None:
    ground = Ground()
    talk = Conversation(ground, "session")
    for version in (None, 7, 8):
        if version is not None:
            answer = await ground.server.update_policy(PolicyUpdate(version=version))
            assert answer == {"version": version, "previous": None if version == 7 else 7, "dropped": 0}
        await talk.ask()
        talk.say("Go on.")
    assert [record.policy_version for record in read_calls(talk.row)] == [None, 7, 8]


async def test_a_version_that_goes_back_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Another training may begin with the gym of an earlier one."""
    ground = Ground()
    for version in (3, 3, "step-1", 2, 0):
        await ground.server.update_policy(PolicyUpdate(version=version))
    assert [record.message for record in caplog.records if "goes back" in record.message] == [
        "the version of the policy goes back from 2 to 0"
    ]
    talk = Conversation(ground, "session")
    await talk.ask()
    assert [record.policy_version for record in read_calls(talk.row)] == [0]


async def test_a_call_that_an_update_overtakes_has_both_versions() -> None:
    ground = Ground(engine={"latency_s": 0.05})
    await ground.server.update_policy(PolicyUpdate(version="step-1"))
    talk = Conversation(ground, "session")
    call = asyncio.create_task(talk.ask())
    await asyncio.sleep(0.02)
    await ground.server.update_policy(PolicyUpdate(version="step-2"))
    await call
    (record,) = read_calls(talk.row)
    assert (record.policy_version, record.policy_version_end) == ("step-1", "step-2")


async def test_calls_of_an_old_version_can_be_dropped() -> None:
    ground = Ground(engine={"latency_s": 30})

    async def ask(session: str) -> None:
        try:
            await Conversation(ground, session).ask()
        finally:
            task = asyncio.current_task()
            assert task is not None
            assert not task.cancelling()  # it is a failed call, whose task goes on

    calls = [asyncio.create_task(ask(str(n))) for n in range(3)]
    await asyncio.sleep(0.02)
    assert ground.app.stats.in_flight == 3
    answer = await ground.server.update_policy(PolicyUpdate(version=2, drop_in_flight=True))
    assert answer["dropped"] == 3
    for failed in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(failed, EngineError)
        assert (failed.failure.code, failed.failure.retryable) == ("policy_updated", True)
    assert ground.app.stats.in_flight == 0
    assert not any(call.cancelled() for call in calls)


async def test_a_repeated_version_drops_no_call_that_began_with_it() -> None:
    ground = Ground(engine={"latency_s": 0.05})
    update = PolicyUpdate(version=2, drop_in_flight=True)
    await ground.server.update_policy(update)
    call = asyncio.create_task(Conversation(ground, "session").ask())
    await asyncio.sleep(0.02)
    assert (await ground.server.update_policy(update))["dropped"] == 0
    await call


async def test_a_caller_that_goes_away_as_its_call_is_dropped_is_gone() -> None:
    ground = Ground(engine={"latency_s": 30})
    call = asyncio.create_task(Conversation(ground, "session").ask())
    await asyncio.sleep(0.02)
    await ground.server.update_policy(PolicyUpdate(version=2, drop_in_flight=True))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_caller_that_goes_away_is_no_dropped_call() -> None:
    ground = Ground(engine={"latency_s": 30})
    call = asyncio.create_task(Conversation(ground, "session").ask())
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await ground.server.update_policy(PolicyUpdate(version=2, drop_in_flight=True)))["dropped"] == 0


async def test_without_ids_the_version_is_stamped_all_the_same() -> None:
    app = EngineApp(Engine(EngineOptions(model="mock", policy="echo")))
    transport = InMemoryTransport()
    base_url = mount(transport, app)

    class Server(VLLMModel):
        def new_transport(self) -> InMemoryTransport:
            return transport

    for native in (False, True):
        server = Server.standalone(
            base_url=base_url, api_key="none", model="mock", is_responses_native=native
        )
        assert isinstance(server, VLLMModel)
        assert RECORD_FIELD not in (await server.respond({"input": "hi"}))["output"][-1]
        await server.update_policy(PolicyUpdate(version=3))
        record = (await server.respond({"input": "hi"}))["output"][-1][RECORD_FIELD]
        assert record["policy_version"] == 3
        assert "ids" not in record


class Reloading:
    """An engine that records its control requests."""

    def __init__(self, status: int = 200) -> None:
        self.calls: list[bytes] = []
        self.status = status

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        self.calls.append(scope["path"].encode() + b"?" + scope["query_string"] + body)
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b'{"results": [null]}'})


async def test_weights_are_reloaded_before_the_version_changes() -> None:
    engine = Reloading()
    server = model_server(engine)
    await server.update_policy(PolicyUpdate(version=1, reload_weights=True))
    assert engine.calls == [
        b'/collective_rpc?{"method":"reload_weights"}',
        b"/reset_prefix_cache?reset_running_requests=true{}",  # what the old weights computed
    ]
    engine.status = 404
    with pytest.raises(EngineError) as raised:
        await server.update_policy(PolicyUpdate(version=2, reload_weights=True))
    assert raised.value.failure.code == "weights_not_reloaded"
    assert "VLLM_SERVER_DEV_MODE" in (raised.value.failure.remedy or "")
    assert server._policy.version == 1


class Replicas:
    """A model server of two processes, in memory."""

    TOKEN = "the-run-token"

    def __init__(self) -> None:
        self.grounds = [Ground(engine={"latency_s": 30}) for _ in range(2)]
        self.transport = InMemoryTransport()
        block = {"host": "127.0.0.1", "port": 1, REPLICA_PORTS_KEY: [1, 2]}
        config = {"policy_model": {"responses_api_models": {"vllm_model": block}}}
        client = ServerClient.connect(config, transport=self.transport, token=self.TOKEN)
        for port, ground in enumerate(self.grounds, 1):
            ground.server.config.name = "policy_model"
            ground.server.server_client = client
            ground.server.middleware.access.token = self.TOKEN
            self.transport.apps[f"http://127.0.0.1:{port}"] = ground.server.setup_webserver()

    async def update(self, port: int, **update: Any) -> Reply:
        headers = {"content-type": "application/json", "x-ng-token": self.TOKEN}
        call = Call("POST", "/policy_version", orjson.dumps(update), headers)
        return await self.transport.send(f"http://127.0.0.1:{port}", call)

    @property
    def versions(self) -> list[Any]:
        return [ground.server._policy.version for ground in self.grounds]


@pytest.mark.parametrize("asked", [1, 2])
async def test_all_processes_of_a_server_change_whichever_is_asked(asked: int) -> None:
    replicas = Replicas()
    calls = [
        asyncio.create_task(Conversation(ground, str(n)).ask())
        for ground in replicas.grounds
        for n in range(2)
    ]
    await asyncio.sleep(0.02)
    reply = await replicas.update(asked, version=5, drop_in_flight=True)
    assert reply.json() == {"version": 5, "previous": None, "dropped": 4}
    assert replicas.versions == [5, 5]
    assert all(isinstance(end, EngineError) for end in await asyncio.gather(*calls, return_exceptions=True))
    assert (await replicas.update(asked, version=6, everywhere=False)).ok
    assert sorted(replicas.versions) == [5, 6]


async def test_a_process_that_does_not_change_is_reported() -> None:
    replicas = Replicas()
    replicas.grounds[1].server.middleware.access.token = "of another run"
    reply = await replicas.update(1, version=5)
    assert (reply.status, reply.json()["error"]["code"]) == (401, "token_required")
    assert replicas.versions == [5, None]


class Joining:
    """The second process of a model server, which was started later than the first, and is to join it."""

    def __init__(self, others: list[Any]) -> None:
        """`others`: the version of the first process at each request for it."""
        self.replicas = Replicas()
        self.others = others
        self.loads = 0
        self.policy = self.replicas.grounds[1].server._policy
        url = "http://127.0.0.1:1"
        self._first = self.replicas.transport.apps[url]
        self.replicas.transport.apps[url] = self._answer

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        version = self.others.pop(0) if len(self.others) > 1 else self.others[0]
        first = self.replicas.grounds[0].server._policy
        first.version = version
        await self._first(scope, receive, send)

    async def load(self) -> None:
        self.loads += 1

    async def join(self, **steps: Any) -> None:
        client = self.replicas.grounds[1].server.server_client
        member = PolicyMember(client, "policy_model", self.policy, steps.pop("load", self.load))
        bootstrap.set_current(Bootstrap("policy_model", {}, "", "", [], replica=1))
        try:
            await member.join(**steps)
        finally:
            bootstrap.set_current(None)


async def test_a_process_that_is_started_later_takes_the_version_of_the_others() -> None:
    joining = Joining([7])
    await joining.join(sleep=_at_once)
    assert (joining.policy.version, joining.loads) == (7, 1)


async def test_before_the_first_update_there_is_nothing_to_take() -> None:
    joining = Joining([None])
    await joining.join(sleep=_at_once)
    assert (joining.policy.version, joining.loads) == (None, 0)


async def test_an_update_while_it_joins_is_taken_too() -> None:
    joining = Joining([7, 8])
    await joining.join(sleep=_at_once)
    assert (joining.policy.version, joining.loads) == (8, 2)


async def test_an_update_that_reaches_it_while_it_loads_wins() -> None:
    joining = Joining([7])

    async def load() -> None:
        joining.policy.change(9, drop_in_flight=False)

    await joining.join(sleep=_at_once, load=load)
    assert joining.policy.version == 9


async def test_without_weights_it_has_no_version() -> None:
    joining = Joining([7])

    async def load() -> None:
        raise EngineError("vLLM has no such route", code="weights_not_reloaded")

    await joining.join(sleep=_at_once, load=load)
    assert joining.policy.version is None


async def _at_once(seconds: float) -> None:
    """Sleep without waiting."""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"version": 3}', 200),
        (b'{"version": "step-3", "drop_in_flight": true}', 200),
        (b"{}", 422),
        (b'{"version": 1.5}', 422),
        (b'{"version": 3, "drop": true}', 422),
    ],
)
async def test_the_route_takes_a_version_and_nothing_unknown(body: bytes, status: int) -> None:
    app = Ground().server.setup_webserver()
    transport = InMemoryTransport({"http://model": app})
    headers = {"content-type": "application/json"}
    reply = await transport.send("http://model", Call("POST", "/policy_version", body, headers))
    assert reply.status == status


def test_the_route_is_a_control_route() -> None:
    assert "/policy_version" in CONTROL_ROUTES
