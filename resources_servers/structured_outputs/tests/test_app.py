"""Gold, no-op and adversarial documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import InputError
from nemo_gym.server_utils import ServerClient
from nemo_gym.testing import read_rows, run_environment
from resources_servers.structured_outputs.app import (
    StructuredOutputsConfig,
    StructuredOutputsResourcesServer,
    StructuredOutputsVerifyRequest,
    StructuredOutputsVerifyResponse,
)
from resources_servers.structured_outputs.documents.documents import DocumentFormat
from resources_servers.structured_outputs.documents.writing import write_document
from resources_servers.structured_outputs.prepare import convert

FOLDER = Path(__file__).parents[1]
SHARED_EXAMPLES = FOLDER.parents[2] / "shared" / "data" / "environment_examples"
BOOK = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "pages": {"type": "integer"}},
    "required": ["title"],
}
GOLD = '{"title": "Tea", "pages": 9}'


def make_server() -> StructuredOutputsResourcesServer:
    config = StructuredOutputsConfig(host="", port=0, entrypoint="", name="")
    return StructuredOutputsResourcesServer(config=config, server_client=MagicMock(spec=ServerClient))


def rows_of(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        pytest.skip(f"{file} is not on this machine")
    return read_rows(file)


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "f", "call_id": "c", "name": name, "arguments": arguments}


def attempt(output: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": [output]}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    row = {"responses_create_params": {"input": "Write."}, "schema_str": json.dumps(BOOK), **row}
    return {**row, "response": response}


async def verify(output: dict[str, Any] | str, **row: Any) -> StructuredOutputsVerifyResponse:
    output = message(output) if isinstance(output, str) else output
    return await make_server().verify(StructuredOutputsVerifyRequest.model_validate(attempt(output, row)))


@pytest.mark.parametrize("row", rows_of(FOLDER / "data" / "example.jsonl"), ids=lambda row: str(row["id"]))
async def test_the_examples_reward_the_facts_in_their_format(row: dict[str, Any]) -> None:
    gold = write_document(row["expected"], DocumentFormat(row["schema_type"]))
    scored = await verify(gold, **row)
    assert (scored.reward, scored.error_type, scored.error_message) == (1.0, None, None)
    assert (await verify(f"Here:\n```{row['schema_type']}\n{gold}\n```", **row)).reward == float(
        row["extraction"] == "embedded"
    )
    other = "json" if row["schema_type"] != "json" else "toml"
    assert (
        await verify(write_document({"catalog": {"x": [{"y": 1}]}}, DocumentFormat(other)), **row)
    ).reward == 0.0


def test_attempts_on_the_whole_path() -> None:
    rows = rows_of(FOLDER / "data" / "example.jsonl")
    for row in rows:
        gold = write_document(row["expected"], DocumentFormat(row["schema_type"]))
        (scored,) = run_environment(StructuredOutputsResourcesServer, [row], [gold])
        assert (scored["reward"], scored["_ng_outcome"]) == (1.0, "completed")
    for scored in run_environment(StructuredOutputsResourcesServer, rows, ["I'd rather not."]):
        assert scored["reward"] == 0.0


async def test_gold_in_every_format() -> None:
    for text, schema_type in [
        (GOLD, "JSON"),
        ("title: Tea\npages: 9", "yaml"),
        ("<book><title>Tea</title><pages>9</pages></book>", "xml"),
        ('title = "Tea"\npages = 9', "toml"),
        ("title,pages\nTea,9\nMilk,8", "csv"),
    ]:
        assert (await verify(text, schema_type=schema_type)).reward == 1.0, schema_type


@pytest.mark.parametrize(
    ("text", "error_type"),
    [
        ("", "empty_response"),
        ("<think>" + GOLD, "empty_response"),
        ("I can't.", "parse_error"),
        (f"Sure: {GOLD}", "parse_error"),
        (f"```json\n{GOLD}\n```", "parse_error"),
        (json.dumps(BOOK), "validation_error"),
        ("{}", "validation_error"),
        ("[]", "validation_error"),
        ('{"title": "Tea"}', "validation_error"),
        ('{"title": "Tea", "pages": 9, "more": 1}', "validation_error"),
        ('{"title": "Tea", "pages": "9"}', "validation_error"),
        ('{"title": "Tea", "pages": true}', "validation_error"),
    ],
)
async def test_no_ops_and_near_misses_get_nothing(text: str, error_type: str) -> None:
    scored = await verify(text)
    assert (scored.reward, scored.error_type) == (0.0, error_type)
    assert scored.error_message


@pytest.mark.parametrize(
    ("text", "schema_type"),
    [
        ("a: &a [x]\nb: [*a, *a]", "yaml"),
        ("!!python/object/apply:os.system ['true']", "yaml"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><title>&b;</title>', "xml"),
        ("[" * 50_000, "json"),
    ],
)
async def test_bombs_are_parse_errors(text: str, schema_type: str) -> None:
    assert (await verify(text, schema_type=schema_type)).error_type == "parse_error"


async def test_an_open_schema_is_taken_at_its_word() -> None:
    for text in ('{"title": "Tea"}', '{"title": "Tea", "more": 1}'):
        assert (await verify(text, close_schema=False)).reward == 1.0
        assert (await verify(text)).reward == 0.0


async def test_expected_content_must_be_there() -> None:
    expected = {"title": "Tea", "pages": 9}
    assert (await verify(GOLD, expected=expected)).reward == 1.0
    scored = await verify('{"title": "", "pages": 0}', expected=expected)
    assert (scored.reward, scored.error_type) == (0.0, "content_error")
    assert "$.pages: expected 9, found 0" in (scored.error_message or "")


async def test_embedded_documents_are_found_and_the_last_one_counts() -> None:
    text = f"First:\n```json\n{{}}\n```\nBetter:\n```json\n{GOLD}\n```\nDone."
    assert (await verify(text, extraction="embedded")).reward == 1.0
    assert (await verify(f"```python\n{GOLD}\n```", extraction="embedded")).error_type == "no_document"


async def test_a_function_call_may_be_the_answer() -> None:
    row = {"response_mode": "tool_call", "tool_name": "save"}
    assert (await verify(call("save", GOLD), **row)).reward == 1.0
    assert (await verify(call("other", GOLD), **row)).error_type == "empty_response"
    assert (await verify(call("save", "{broken"), **row)).error_type == "empty_response"
    assert (await verify(GOLD, **row)).error_type == "empty_response"
    wrapped = {**row, "tool_payload_key": "book"}
    assert (await verify(call("save", f'{{"book": {GOLD}}}'), **wrapped)).reward == 1.0
    assert (await verify(call("save", GOLD), **wrapped)).reward == 0.0


@pytest.mark.parametrize("wrap", ["%s", '{"book": %s}'])
async def test_a_key_twice_in_a_call_is_no_document(wrap: str) -> None:
    row = {"response_mode": "tool_call", "tool_name": "save"}
    row |= {"tool_payload_key": "book"} if wrap != "%s" else {}
    twice = GOLD.replace("{", '{"pages": 0, ', 1)
    for arguments in (wrap % twice, '{"book": {}, ' + (wrap % GOLD)[1:]):
        scored = await verify(call("save", arguments), **row)
        if arguments.count('"pages"') > 1 or arguments.count('"book"') > 1:
            assert (scored.reward, scored.error_type) == (0.0, "parse_error")
            assert "is repeated" in (scored.error_message or "")


@pytest.mark.parametrize("schema_str", ["{", "[]", '{"type": "texts"}', '{"$ref": "https://example.com/a"}'])
async def test_a_row_without_a_schema_is_refused_and_not_scored(schema_str: str) -> None:
    with pytest.raises(InputError, match="schema"):
        await verify(GOLD, schema_str=schema_str)


def test_over_http_the_verdict_has_the_fields_of_the_contract() -> None:
    with TestClient(make_server().setup_webserver()) as client:
        scored = client.post("/verify", json=attempt(message(GOLD), {"schema_str": BOOK})).json()
        assert (scored["reward"], scored["schema_type"]) == (1.0, "json")
        assert json.loads(scored["schema_str"]) == BOOK
        for row in ({"schema_type": "ini"}, {"response_mode": "tool_call"}, {"schema_str": "{"}):
            assert client.post("/verify", json=attempt(message(GOLD), row)).status_code == 422
        assert client.get("/reverify_mode").json() == "stateless"


def test_metrics_are_grouped_by_format() -> None:
    rows = [[{"reward": 1.0, "schema_type": "json"}], [{"reward": 0.0, "schema_type": "xml"}]]
    metrics = make_server().compute_metrics(rows)
    assert metrics["pass@1/accuracy"] == 50.0
    assert (metrics["json/pass@1/accuracy"], metrics["xml/pass@1/accuracy"]) == (100.0, 0.0)


GOLD_OF_THE_ECOSYSTEM: dict[str, Callable[[list[str]], str]] = {
    "000200": lambda names: ",".join(names) + "\n" + ",".join("x" for _ in names),
    "001700": lambda _: (
        "<recipe><title>t</title><author><name>n</name><contact><email>e</email></contact></author>"
        "<ingredients><item><name>n</name><quantity>1</quantity><unit>g</unit></item></ingredients><steps><step><order>1"
        "</order><instruction>i</instruction><duration><minutes>5</minutes></duration></step></steps><nutrition><calories>"
        "1</calories><fat><grams>1</grams></fat><protein><grams>1</grams></protein><carbohydrates><grams>1</grams>"
        "</carbohydrates></nutrition><tags><tag>v</tag></tags><metadata><created_at>d</created_at></metadata></recipe>"
    ),
}


async def test_rows_of_the_ecosystem_are_converted_and_graded() -> None:
    for row in rows_of(SHARED_EXAMPLES / "structeval.jsonl"):
        task = convert(row)
        assert (await verify("<|BEGIN_CODE|>x<|END_CODE|>", **task)).reward == 0.0
        if row["task_id"] in GOLD_OF_THE_ECOSYSTEM:
            names = [path.removeprefix("csv::") for path in row["raw_output_metric"]]
            document = GOLD_OF_THE_ECOSYSTEM[row["task_id"]](names)
            scored = await verify(f"<|BEGIN_CODE|>{document}<|END_CODE|>", **task)
            assert scored.reward == 1.0, scored.error_message
