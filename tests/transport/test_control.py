"""No spelling of a name reaches a control handler, neither over the wire nor through an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import orjson
import pytest
from fastapi import Body, Request
from fastapi import Response as HttpResponse
from pydantic import Field

from nemo_gym.agents.tools import ToolClient
from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.base_responses_api_agent import SimpleResponsesAPIAgent
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.config_types import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.failures import InputError
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.testing.serving import serving
from nemo_gym.transport.control import CONTROL_ROUTES, is_control_route, normalize_path
from nemo_gym.transport.server_client import ServerClient
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import CounterEnvironment, ScriptedModel, call, task_row, text

SPELLINGS = [
    "verify",
    "../verify",
    "./verify",
    "/verify",
    "//verify",
    "verify/",
    "x/../verify",
    "verify?x=1",
    "verify#x",
    "verify;x",
    "%76erify",
    "%2576erify",
    "%2Fverify",
    "VERIFY",
    "Verify ",
    "\\verify",
    "seed_session",
    "Seed_Session",
    "close_session",
    "aggregate_metrics",
    "policy_version",
]


class Witness(CounterEnvironment):
    """Notes who is called between the episode's own calls."""

    reached: list[str] = Field(default_factory=list)

    async def verify(  # type: ignore[override]
        self, request: Request, body: BaseVerifyRequest
    ) -> BaseVerifyResponse:
        self.reached.append("verify")
        return await super().verify(request, body)

    async def release_session(self, session_id: str) -> None:
        self.reached.append("close_session")
        await super().release_session(session_id)

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> AggregateMetrics:
        self.reached.append("aggregate_metrics")
        return await super().aggregate_metrics(body)


class NaiveAgent(SimpleResponsesAPIAgent):
    """Calls whatever the model names, as agents in the wild do; its tool outputs are in the answer's text."""

    async def responses(
        self, request: Request, response: HttpResponse, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        answer = await self.server_client.post("policy_model", "/v1/responses", json=body)
        answered = await answer.json()
        outputs = [
            (await self.server_client.post("env", f"/{item['name']}", data=item["arguments"])).body.decode()
            for item in answered["output"]
        ]
        return NeMoGymResponse.model_validate({**answered, "output": [text("\n".join(outputs))]})

    @property
    def resources_server_name(self) -> str:
        return "env"


def gym_with(names: list[str]) -> tuple[InProcessGym, Witness]:
    gym = InProcessGym()
    witness, model = gym.add(Witness, "env"), gym.add(ScriptedModel, "policy_model")
    assert isinstance(witness, Witness)
    assert isinstance(model, ScriptedModel)
    calls = [call(name, "{}", f"call_{place}") for place, name in enumerate(names)]
    model.turns = [calls, [text("I give up")]]
    gym.add(
        SimpleAgent,
        "simple",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    gym.add(NaiveAgent, "naive")
    return gym, witness


async def test_names_that_a_model_makes_up_come_back_as_plain_tool_errors() -> None:
    gym, witness = gym_with(SPELLINGS)
    row = await gym.run("simple", task_row())
    outputs = [item for item in row["response"]["output"] if item["type"] == "function_call_output"]
    assert len(outputs) == len(SPELLINGS)
    assert all(orjson.loads(item["output"])["error"].startswith("there is no tool named") for item in outputs)
    assert witness.reached == ["verify", "close_session"], "the episode's own"


@pytest.mark.parametrize("path", ["/run", "/v1/responses"])
async def test_an_agent_that_trusts_the_model_s_names_reaches_no_control_handler_either(path: str) -> None:
    gym, witness = gym_with(SPELLINGS)
    row = task_row()
    body = row if path == "/run" else row["responses_create_params"]
    answered = await (await gym.post("naive", path, body)).json()
    said = (answered["response"] if path == "/run" else answered)["output"][0]["content"][0]["text"]
    assert said.count("there is no tool named") == len(SPELLINGS)
    assert witness.reached == (["verify", "close_session"] if path == "/run" else [])


@pytest.fixture
def run_with_token() -> Iterator[None]:
    bootstrap.set_current(Bootstrap("env", {}, "the-run-token", "cookie-key", []))
    yield
    bootstrap.set_current(None)


@pytest.fixture
async def witness(run_with_token: None) -> AsyncIterator[tuple[Witness, str]]:
    witness = Witness.standalone(name="env")
    assert isinstance(witness, Witness)
    async with serving(witness) as url:
        yield witness, url


async def answer_to(url: str, target: str, method: bytes = b"POST") -> int:
    """The status that a request for `target`, exactly as it stands, is answered with."""
    host = urlsplit(url)
    reader, writer = await asyncio.open_connection(host.hostname, host.port)
    writer.write(method + b" %b HTTP/1.1\r\nhost: env\r\ncontent-length: 2\r\n\r\n{}" % target.encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def test_no_raw_path_reaches_a_control_handler_without_the_token(witness: tuple[Witness, str]) -> None:
    environment, url = witness
    for name in SPELLINGS:
        for prefix in ("/", "//", "/./", "/x/../", "/%2e%2e/", "http://env/"):
            target = prefix + name.lstrip("/").replace(" ", "%20")
            for method in (b"POST", b"GET", b"PUT", b"post"):
                status = await answer_to(url, target, method)
                assert status in (307, 400, 401, 404, 405), (target, method, status)
    assert environment.reached == []
    assert environment.counts == {}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_known_for_what_it_is(name: str) -> None:
    assert is_control_route(name)
    assert is_control_route(f"/{name}")


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("search", "/search"),
        ("/a/b", "/a/b"),
        ("a//b/", "/a/b"),
        ("verify_email", "/verify_email"),
        ("", "/"),
    ],
)
def test_other_names_stay_what_they_are(written: str, path: str) -> None:
    assert normalize_path(written) == path
    assert not is_control_route(written)


@pytest.mark.parametrize("name", [*SPELLINGS, "run", "reset", "", "STEP"])
def test_a_task_can_declare_no_tool_by_such_a_name(name: str) -> None:
    client = ServerClient.connect({}, transport=InProcessGym().transport, token=None)
    with pytest.raises(InputError, match="is a reserved route of the gym"):
        ToolClient(client, "env", [{"type": "function", "name": name, "parameters": {}}])


def test_control_routes_are_written_as_they_are_routed() -> None:
    assert {normalize_path(route) for route in CONTROL_ROUTES} == CONTROL_ROUTES
