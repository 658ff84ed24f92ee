"""One table of spellings of a final answer, read by the verifier of every environment that reads one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.server import SimpleResourcesServer
from nemo_gym.server_utils import ServerClient
from resources_servers.efficient_tool_use.app import (
    EfficientToolUseResourcesServer,
    EfficientToolUseVerifyRequest,
)
from resources_servers.gymnasium.app import FollowUpServer
from resources_servers.math_with_judge.app import (
    LibraryJudgeMathResourcesServer,
    LibraryJudgeMathResourcesServerConfig,
    LibraryJudgeMathVerifyRequest,
)
from resources_servers.mcqa.app import MCQAResourcesServer, MCQAVerifyRequest
from resources_servers.reasoning_gym.app import ReasoningGymResourcesServer, ReasoningGymVerifyRequest
from resources_servers.string_match.app import StringMatchResourcesServer, StringMatchVerifyRequest
from tests.verify.final_answers import (
    CHOICES,
    DENIED,
    GAME,
    MATH,
    MCQA_STRICT,
    OPTION_SPELLINGS,
    READERS,
    REASONING,
    SPELLINGS,
    TOOLS,
    Spellings,
)
from tests.verify.judges import response_of

ASKED = {"responses_create_params": {"input": "What is 6 times 7?"}}
OPTIONS = [{"A": "9"}, {"B": "24"}, {"C": "42"}, {"D": "None of these"}]
STOCK = {"stock": {"Oslo": {"nuts": 42}}, "needed": [["Oslo", "nuts"]], "expected_answer": 42, "par_cost": 1}
PRICES = {"prices": {"count_bin": 1, "list_warehouse": 3, "list_part": 2}, "par_calls": 1, "par_tokens": 45}
SUM = {"question": "6 * 7 =", "answer": "42", "metadata": {"source_dataset": "chain_sum"}}


async def read_choice(mode: str, text: str) -> bool:
    row = {**ASKED, "options": OPTIONS, "expected_answer": "C", "grading_mode": mode.removeprefix("mcqa ")}
    body = MCQAVerifyRequest.model_validate({**row, "response": response_of(text)})
    return bool((await verify(MCQAResourcesServer, body))["reward"] == 1.0)


async def read_string(mode: str, text: str) -> bool:
    row = {**ASKED, "expected_answer": "42", "extraction_mode": mode.removeprefix("string_match ")}
    body = StringMatchVerifyRequest.model_validate({**row, "response": response_of(text)})
    return bool((await verify(StringMatchResourcesServer, body))["reward"] == 1.0)


async def read_mathematics(text: str) -> bool:
    row = {**ASKED, "question": "What is 6 times 7?", "expected_answer": "42"}
    body = LibraryJudgeMathVerifyRequest.model_validate({**row, "response": response_of(text)})
    config = LibraryJudgeMathResourcesServerConfig(
        host="", port=0, entrypoint="", name="", should_use_judge=False
    )
    server = LibraryJudgeMathResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))
    return (await server.verify(body)).reward == 1.0


async def read_stock(text: str) -> bool:
    body = EfficientToolUseVerifyRequest.model_validate(
        {**ASKED, **STOCK, **PRICES, "response": response_of(text)}
    )
    return bool((await verify(EfficientToolUseResourcesServer, body))["is_right"])


async def read_reasoning(text: str) -> bool:
    body = ReasoningGymVerifyRequest.model_validate({**ASKED, **SUM, "response": response_of(text)})
    return bool((await verify(ReasoningGymResourcesServer, body))["reward"] == 1.0)


async def read_game(text: str) -> bool:
    server = FollowUpServer.standalone()
    assert isinstance(server, FollowUpServer)
    server.session_state["s"] = iter(())
    action = NeMoGymResponse.model_validate(response_of(text))
    return (await server.step(action, {"expected_answer": "42"}, "s"))[1] == 1.0


async def verify(server: type[SimpleResourcesServer], body: BaseVerifyRequest) -> dict[str, Any]:
    """Return the scored row of an environment's own verifier."""
    environment: Any = server.standalone()
    scored: BaseVerifyResponse = await environment.verify(body)
    return scored.model_dump()


OTHERS: dict[str, Callable[[str], Awaitable[bool]]] = {
    MATH: read_mathematics,
    TOOLS: read_stock,
    REASONING: read_reasoning,
    GAME: read_game,
}


def texts(spellings: Spellings, reader: str) -> Iterator[str]:
    """Yield the texts that a reader reads, with the answer: 42, or the letter of that option."""
    if reader in spellings.not_read_by:
        return
    for text in spellings.paragraphs():
        answers = ("C",) if reader == MCQA_STRICT else ("42", "C") if reader in CHOICES else ("42",)
        for answer in answers:
            yield re.sub(r"ANSWER(?!:)", answer, text)


async def reads(reader: str, text: str) -> bool:
    if reader in CHOICES:
        return await read_choice(reader, text)
    return await (OTHERS[reader](text) if reader in OTHERS else read_string(reader, text))


@pytest.mark.parametrize("reader", READERS)
async def test_every_environment_reads_every_spelling_of_a_final_answer(reader: str) -> None:
    read = [text for spellings in SPELLINGS for text in texts(spellings, reader)]
    assert len(read) >= 10
    missed = [text for text in read if not await reads(reader, text)]
    assert not missed, "\n---\n".join(missed)


@pytest.mark.parametrize("reader", sorted(CHOICES))
async def test_readers_of_choices_read_an_option_with_words_around_its_letter(reader: str) -> None:
    written = [text.replace("ANSWER", "C") for text in OPTION_SPELLINGS.paragraphs()]
    missed = [text for text in written if not await reads(reader, text)]
    assert reader in OPTION_SPELLINGS.not_read_by or not missed, "\n---\n".join(missed)


@pytest.mark.parametrize("reader", READERS)
async def test_no_environment_reads_an_answer_that_is_denied_left_open_or_replaced(reader: str) -> None:
    wrong = [text for spellings in DENIED for text in texts(spellings, reader) if await reads(reader, text)]
    assert not wrong, "\n---\n".join(wrong)
