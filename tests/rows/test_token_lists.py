"""Rows whose ids are in lists become the rows that the model server would have written in the contract's form."""

from __future__ import annotations

import copy
from random import Random
from typing import Any, ClassVar

import orjson
import pytest
from fastapi import Request
from fastapi import Response as HttpResponse

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.engines.tokens.recorder import Ledgers
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.drifting import ForgetfulTemplate
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollouts.run.agent_attempter import read_reply
from nemo_gym.rollouts.run.answer import AgentAnswer, Failed, Scored, classify
from nemo_gym.rows.calls import fill_contract_fields, read_calls, settle_sequence
from nemo_gym.rows.forms import ScoredRow
from nemo_gym.rows.token_lists import fill_lists, has_lists, without_tokens, write_lists
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.tokens.records import CARRIED_FIELDS, CONTRACT_FIELDS, FOR_CONTRACT, RECORD_FIELD, TokenForm
from nemo_gym.transport import Reply
from nemo_gym.transport.context import ENDED_HEADER, LISTS, SESSION_HEADER, TOKENS_HEADER
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel
from tests.rollouts.doubles import planned
from tests.tokens.conversations import Ground, converse

SEEDS = range(12)


async def talk(seed: int, *, drifts: bool = False, **options: Any) -> ScoredRow:
    ground = Ground(
        template=ForgetfulTemplate() if drifts else None, odd_share=0.5 if drifts else 0.0, **options
    )
    return (await converse(ground, Random(seed), str(seed))).row


def output_of(row: Any) -> list[dict[str, Any]]:
    """The items of a row without their ids, which differ in each conversation."""
    return [
        {name: None if name in ("id", "call_id") else value for name, value in item.items()}
        for item in row["response"]["output"]
    ]


@pytest.mark.parametrize("seed", SEEDS)
async def test_lists_are_written_as_the_model_server_writes_the_contract(seed: int) -> None:
    contract, lists = await talk(seed), await talk(seed, takes_lists=True)
    assert has_lists(lists)
    assert not any(name in item for item in lists["response"]["output"] for name in CONTRACT_FIELDS)
    written = orjson.loads(orjson.dumps(write_lists(lists)))
    assert output_of(written) == output_of(contract)
    assert list(map(list, written["response"]["output"])) == list(map(list, contract["response"]["output"]))


@pytest.mark.parametrize("seed", SEEDS)
async def test_lists_become_the_same_row_as_objects_and_as_text(seed: int) -> None:
    for drifts in (False, True):
        row = await talk(seed, drifts=drifts, takes_lists=True)
        before = copy.deepcopy(row)
        filled, written = fill_lists(row), orjson.loads(orjson.dumps(write_lists(row)))
        assert row == before
        assert filled == written
        assert not has_lists(filled)
        assert read_calls(filled) == read_calls(row)


async def test_after_a_drift_a_row_is_settled_as_one_of_the_contract() -> None:
    rows = [
        (await talk(seed, drifts=True), await talk(seed, drifts=True, takes_lists=True)) for seed in SEEDS
    ]
    assert any(
        RECORD_FIELD in item and FOR_CONTRACT not in item[RECORD_FIELD]
        for _, lists in rows
        for item in lists["response"]["output"]
    ), "a call after a drift is packed"
    for contract, lists in rows:
        assert output_of(fill_lists(settle_sequence(lists))) == output_of(settle_sequence(contract))


@pytest.mark.parametrize("form", [TokenForm.PACKED, TokenForm.LISTS])
async def test_other_forms_are_left_as_they_are(form: TokenForm) -> None:
    row = await talk(3, takes_lists=True, token_fields=form.value)
    assert fill_lists(row) is row
    assert write_lists(row) is row


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda record: record.update(base="0" * 16), id="another base"),
        pytest.param(lambda record: record.update(kept=1), id="fewer ids kept"),
        pytest.param(lambda record: record.update(ids="text"), id="ids that are a text"),
        pytest.param(lambda record: record["ids"].update(prompt="1,2"), id="a prompt that is a text"),
        pytest.param(lambda record: record["ids"].pop("logprobs"), id="no log-probabilities"),
    ],
)
async def test_a_damaged_list_is_never_written_as_ids(harm: Any) -> None:
    for seed in SEEDS:
        row = await talk(seed, takes_lists=True)
        calls = [item[RECORD_FIELD] for item in row["response"]["output"] if RECORD_FIELD in item]
        if len(calls) < 2:
            continue
        harm(calls[-1])
        written = orjson.loads(orjson.dumps(write_lists(row)))
        assert written == fill_contract_fields(row)
        last = [item for item in written["response"]["output"] if RECORD_FIELD in item][-1]
        assert last[RECORD_FIELD]["masked"]
        assert CONTRACT_FIELDS[0] not in last
        return
    raise AssertionError("no conversation had two calls")


async def test_a_row_without_tokens_is_the_same_object() -> None:
    row = without_tokens(await talk(3))
    assert not any(not CARRIED_FIELDS.isdisjoint(item) for item in row["response"]["output"])
    assert without_tokens(row) is row


# --- Whole rollouts ---------------------------------------------------------------------------------------------


class Library(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    reads_tokens: ClassVar[bool] = False
    seen: ClassVar[list[dict[str, Any]]] = []

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        self.seen.append(orjson.loads(body.model_dump_json(exclude_unset=True)))
        return BaseVerifyResponse(**dict(body), reward=1.0)


LONG = 10**30


class CountVerifyResponse(BaseVerifyResponse):
    count: int = LONG


class Counter(Library):
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return CountVerifyResponse(**dict(body), reward=1.0)


class Reader(Library):
    reads_tokens: ClassVar[bool] = True


class Heir(Library):
    """Its `verify` may read tokens, as far as it says."""

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return await super().verify(body)


class SilentHeir(Heir):
    reads_tokens: ClassVar[bool] = False


class ReadingAgent(SimpleAgent):
    async def act(self, episode: Episode) -> Act:
        act = await super().act(episode)
        act.notes["first_ids"] = act.response["output"][-1]["generation_token_ids"][:2]
        return act


def gym_over(
    engine: EngineProcess,
    environment: type[Library],
    agent: type[SimpleAgent] = SimpleAgent,
    **options: Any,
) -> InProcessGym:
    gym = InProcessGym()
    gym.add(environment, "library")
    model = {"base_url": engine.base_url, "api_key": "none", "model": "mock", "exact_prompts": False}
    gym.add(VLLMModel, "policy_model", return_token_id_information=True, **model, **options)
    gym.add(
        agent,
        "agent",
        resources_server={"type": "resources_servers", "name": "library"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    return gym


@pytest.fixture(scope="module")
def engine() -> Any:
    with EngineProcess(EngineOptions()) as running:
        yield running


ROW = {"responses_create_params": {"input": "Hello."}}


async def run(gym: InProcessGym, **headers: str) -> bytes:
    reply = await gym.post("agent", "/run", ROW, headers=headers)
    reply.raise_for_status()
    return reply.body


@pytest.mark.parametrize("environment", [Library, Reader])
async def test_a_caller_gets_the_contract_unless_it_takes_lists(
    engine: EngineProcess, environment: type[Library]
) -> None:
    gym = gym_over(engine, environment)
    async with gym.running():
        whole, lists = await run(gym), await run(gym, **{TOKENS_HEADER: LISTS})
        answered = await gym.post("agent", "/v1/responses", {"input": "Hello."})
    (item,) = orjson.loads(whole)["response"]["output"]
    (listed,) = orjson.loads(lists)["response"]["output"]
    assert "ids" not in item[RECORD_FIELD]
    assert FOR_CONTRACT in listed[RECORD_FIELD]
    for name, key in zip(CONTRACT_FIELDS, ("prompt", "generated", "logprobs"), strict=True):
        assert listed[RECORD_FIELD]["ids"][key] == item[name] != []
    (typed,) = (
        answered.json()["output"] if not callable(answered.json) else orjson.loads(answered.body)["output"]
    )
    assert typed["prompt_token_ids"] == item["prompt_token_ids"]


async def test_a_verifier_gets_tokens_unless_its_environment_reads_none(engine: EngineProcess) -> None:
    environments: dict[type[Library], bool] = {Library: False, Reader: True, Heir: True, SilentHeir: False}
    for environment, has_tokens in environments.items():
        for form in ("contract", "packed"):
            environment.seen.clear()
            gym = gym_over(engine, environment, token_fields=form)
            async with gym.running():
                await run(gym)
            (item,) = environment.seen[0]["response"]["output"]
            assert (RECORD_FIELD in item) is has_tokens
            assert ("generation_token_ids" in item) is (has_tokens and form == "contract")


async def test_an_agents_own_act_gets_the_contracts_fields(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library, ReadingAgent)
    async with gym.running():
        row = orjson.loads(await run(gym, **{TOKENS_HEADER: LISTS}))
    assert row["first_ids"] == row["response"]["output"][-1]["generation_token_ids"][:2] != []


async def test_the_line_of_a_row_with_lists_is_that_of_the_contract(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    async with gym.running():
        lists = await run(gym, **{TOKENS_HEADER: LISTS})
    result = read_reply(Reply(200, (), lists), "agent")
    assert isinstance(result, AgentAnswer)
    scored = classify(planned(0, 0), result)
    assert isinstance(scored, Scored)
    filled = classify(planned(0, 0), AgentAnswer(fill_lists(ScoredRow(result.row))))
    assert isinstance(filled, Scored)
    assert scored.line == filled.line


async def test_a_row_that_a_reader_would_round_has_no_lists(engine: EngineProcess) -> None:
    gym = gym_over(engine, Counter)
    async with gym.running():
        row = await run(gym, **{TOKENS_HEADER: LISTS})
    assert b'"count":%d' % LONG in row
    assert FOR_CONTRACT.encode() not in row
    scored = classify(planned(0, 0), read_reply(Reply(200, (), row), "agent"))
    assert isinstance(scored, Scored)
    assert b'"count":%d' % LONG in scored.line
    assert b'"generation_token_ids":[' in scored.line


async def test_the_line_of_a_failure_has_no_lists(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    async with gym.running():
        lists = orjson.loads(await run(gym, **{TOKENS_HEADER: LISTS}))
    failed = classify(
        planned(0, 0), AgentAnswer({**lists, "reward": None, "_ng_failure_class": "judge_failed"})
    )
    assert isinstance(failed, Failed)
    (item,) = orjson.loads(failed.to_line(planned(0, 0), terminal=True))["response"]["output"]
    assert FOR_CONTRACT not in item[RECORD_FIELD]
    assert item["generation_token_ids"]


# --- Sessions that are over -------------------------------------------------------------------------------------


async def test_a_model_server_forgets_the_rollouts_that_are_over(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    async with gym.running():
        held, seen = ledgers_of(gym), set[str]()
        for _ in range(3):
            await run(gym)
            (session,) = held.names()
            seen.add(session)
        assert len(seen) == 3
        last = held.find(session)
        assert last is not None
        assert held.held_ids == len(last) > 0


async def test_a_session_of_the_caller_does_not_end_with_a_rollout(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    async with gym.running():
        rows = [orjson.loads(await run(gym, **{SESSION_HEADER: "mine"})) for _ in range(2)]
        await run(gym, **{SESSION_HEADER: "another"})
        assert ledgers_of(gym).names() == ["mine", "another"]
    assert [row["response"]["output"][-1][RECORD_FIELD]["call"] for row in rows] == [0, 1]


class Delegating(SimpleAgent):
    """Has the agent do the task twice, in its own session."""

    async def run(self, request: Request) -> HttpResponse:
        rows = []
        for _ in range(2):
            reply = await self.server_client.post("agent", "/run", data=await request.body())
            reply.raise_for_status()
            rows.append(orjson.loads(reply.body))
        return JsonResponse(orjson.dumps({"rows": rows}))


async def test_a_rollout_within_another_one_does_not_end_its_session(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    gym.add(
        Delegating,
        "delegating",
        resources_server={"type": "resources_servers", "name": "library"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    async with gym.running():
        reply = await gym.post("delegating", "/run", ROW)
        reply.raise_for_status()
        rows = orjson.loads(reply.body)["rows"]
    assert [row["response"]["output"][-1][RECORD_FIELD]["call"] for row in rows] == [0, 1]


async def test_a_conversation_over_responses_goes_on(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    async with gym.running():
        first = await gym.post("agent", "/v1/responses", {"input": "Hello."})
        await run(gym)
        second = await gym.post("agent", "/v1/responses", {"input": "Again."}, cookies=first.cookies)
    assert [orjson.loads(each.body)["output"][-1][RECORD_FIELD]["call"] for each in (first, second)] == [0, 1]


async def test_a_caller_without_the_token_ends_no_session(engine: EngineProcess) -> None:
    gym = gym_over(engine, Library)
    async with gym.running():
        held = ledgers_of(gym)
        for is_trusted in (False, True):
            gym.servers["policy_model"].middleware.access.token = None if is_trusted else "secret"
            for session, ended in (("mine", "none"), ("another", "mine")):
                headers = {SESSION_HEADER: session, ENDED_HEADER: ended}
                await gym.post(
                    "policy_model", "/v1/responses", ROW["responses_create_params"], headers=headers
                )
            assert ("mine" in held.names()) is not is_trusted


def ledgers_of(gym: InProcessGym) -> Ledgers:
    model = gym.servers["policy_model"]
    assert isinstance(model, VLLMModel)
    assert model._calls is not None
    return model._calls.ledgers
