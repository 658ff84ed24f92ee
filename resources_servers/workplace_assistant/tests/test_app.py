"""Attempts at the workplace: gold, no-op and wrong ones, scored by the state they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import ConfigError
from nemo_gym.testing import InProcessGym
from resources_servers.workplace_assistant.app import WorkplaceServer
from resources_servers.workplace_assistant.csv_tables import COLUMNS, load
from resources_servers.workplace_assistant.generator import generate
from resources_servers.workplace_assistant.prepare import main as prepare
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import ScriptedModel, call, text

FOLDER = Path(__file__).parents[1]
SHARED = FOLDER.parents[2] / "shared" / "data" / "environment_examples"
RESPONSE = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": []}
AMARA, BJORN = generate().addresses[:2]


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


EXAMPLES = rows_of(FOLDER / "data" / "example.jsonl")


def expected(name: str, **arguments: str) -> dict[str, Any]:
    return {"name": name, "arguments": json.dumps(arguments)}


def send(recipient: str = AMARA, body: str = "Hello") -> dict[str, Any]:
    return expected("email_send_email", recipient=recipient, subject="Hi", body=body)


def row_of(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"responses_create_params": {"input": "do it"}, "ground_truth": list(calls)}


class Session:
    def __init__(self, row: dict[str, Any]) -> None:
        server = WorkplaceServer.standalone()
        assert isinstance(server, WorkplaceServer)
        self.server = server
        self.row = row
        self.client = TestClient(self.server.setup_webserver())
        self.client.post("/seed_session", json=row)

    def do(self, *calls: dict[str, Any]) -> Session:
        for made in calls:
            answer = self.client.post(f"/{made['name']}", json=json.loads(made["arguments"]))
            assert answer.status_code == 200, answer.text
        return self

    def verify(self) -> dict[str, Any]:
        scored: dict[str, Any] = self.client.post("/verify", json={**self.row, "response": RESPONSE}).json()
        return scored

    @property
    def reward(self) -> float:
        return float(self.verify()["reward"])


async def play(row: dict[str, Any], *turns: list[dict[str, Any]]) -> dict[str, Any]:
    gym = InProcessGym()
    gym.add(WorkplaceServer, "env")
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = list(turns)
    references = {
        "resources_server": {"type": "resources_servers", "name": "env"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    gym.add(SimpleAgent, "agent", **references)
    return await gym.run("agent", row)


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: f"row {row['id']}")
async def test_the_expected_calls_of_an_example_score_one(row: dict[str, Any]) -> None:
    gold = [
        [call(made["name"], made["arguments"], f"c{index}")] for index, made in enumerate(row["ground_truth"])
    ]
    scored = await play(row, *gold, [text("Done.")])
    assert (scored["reward"], scored["differences"]) == (1.0, [])
    assert (scored["category"], scored["_ng_outcome"]) == (row["category"], "completed")


@pytest.mark.parametrize("row", EXAMPLES, ids=lambda row: f"row {row['id']}")
async def test_doing_nothing_is_rewarded_only_where_nothing_is_to_be_done(row: dict[str, Any]) -> None:
    scored = await play(row, [text("Done, all of it!")])
    assert scored["reward"] == float(not row["ground_truth"])
    assert bool(scored["differences"]) is bool(row["ground_truth"])


TASK = row_of(send(), expected("email_delete_email", email_id="00000003"))


@pytest.mark.parametrize(
    "calls",
    [
        [send(body="hello "), expected("email_delete_email", email_id="00000003")],
        [expected("email_delete_email", email_id="00000003"), send()],
        [expected("email_search_emails", query="hello"), *TASK["ground_truth"]],
    ],
)
def test_another_way_to_the_same_state_is_as_good(calls: list[dict[str, Any]]) -> None:
    assert Session(TASK).do(*calls).reward == 1.0


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [send()],
        [*TASK["ground_truth"], send()],
        [*TASK["ground_truth"], expected("email_delete_email", email_id="00000004")],
        [send(BJORN), expected("email_delete_email", email_id="00000003")],
        [send(body="Hello!"), expected("email_delete_email", email_id="00000003")],
        [send(), expected("email_delete_email", email_id="00000004")],
    ],
)
def test_too_little_too_much_or_something_else_scores_nothing(calls: list[dict[str, Any]]) -> None:
    scored = Session(TASK).do(*calls).verify()
    assert scored["reward"] == 0.0
    assert scored["differences"]


def test_a_mistake_that_was_undone_is_forgiven() -> None:
    rename = {"task_id": "00000005", "field": "task_name"}
    old = generate().tasks["00000005"]["task_name"]
    calls = [
        expected("project_management_update_task", **rename, new_value="Oops"),
        expected("project_management_update_task", **rename, new_value=old),
    ]
    assert Session(row_of()).do(*calls).reward == 1.0


def test_two_new_rows_may_come_in_any_order() -> None:
    calls = [send(AMARA, "one"), send(BJORN, "two")]
    assert Session(row_of(*calls)).do(*calls[::-1]).reward == 1.0
    assert Session(row_of(*calls)).do(calls[0], calls[0]).reward == 0.0


def test_the_differences_say_what_is_wrong() -> None:
    differences = Session(TASK).verify()["differences"]
    assert any("$.emails.created" in difference for difference in differences)
    assert any("$.emails.deleted.00000003" in difference for difference in differences)


def test_verify_changes_nothing_and_sessions_are_apart() -> None:
    session = Session(TASK).do(*TASK["ground_truth"])
    other = TestClient(session.server.setup_webserver())
    other.post("/seed_session", json=TASK)
    assert [session.reward, session.reward] == [1.0, 1.0]
    assert other.post("/verify", json={**TASK, "response": RESPONSE}).json()["reward"] == 0.0


def test_a_session_is_freed_when_it_is_closed_and_unknown_before_it_is_opened() -> None:
    session = Session(TASK)
    session.client.post("/close_session")
    assert session.server.workplaces == {}
    stranger = TestClient(session.server.setup_webserver())
    for path in ("/verify", "/email_search_emails"):
        body = {**TASK, "response": RESPONSE}
        codes = [
            client.post(path, json=body).json()["error"]["code"] for client in (session.client, stranger)
        ]
        assert codes == ["session_closed", "no_session"]


async def test_what_a_tool_refuses_the_model_can_read() -> None:
    row = {**row_of(), "responses_create_params": EXAMPLES[0]["responses_create_params"]}
    scored = await play(row, [call("email_delete_email", '{"email_id": "nope"}')], [text("Sorry.")])
    assert scored["response"]["output"][1]["output"] == '{"error":"there is no email with the id \'nope\'"}'


@pytest.mark.parametrize(
    ("ground_truth", "param"),
    [
        ([expected("email_burn_email", email_id="00000001")], "ground_truth[0]"),
        ([send(), expected("email_delete_email", email_id="77777777")], "ground_truth[1]"),
        ([{"name": "email_send_email", "arguments": "{"}], "ground_truth.0.arguments"),
    ],
)
def test_a_row_that_cannot_be_graded_is_named_and_not_scored(ground_truth: Any, param: str) -> None:
    error = Session({**TASK, "ground_truth": ground_truth}).verify()["error"]
    assert error["param"].startswith(param)


def test_calls_may_be_given_as_text_or_as_objects() -> None:
    as_text = {**TASK, "ground_truth": json.dumps(TASK["ground_truth"])}
    assert Session(as_text).do(*TASK["ground_truth"]).reward == 1.0
    objects = [{**made, "arguments": json.loads(made["arguments"])} for made in TASK["ground_truth"]]
    assert Session({**TASK, "ground_truth": objects}).do(*TASK["ground_truth"]).reward == 1.0


def test_the_ecosystems_rows_can_be_played() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    for row in rows_of(SHARED / "workplace_assistant.jsonl"):
        assert Session(row).do(*row["ground_truth"]).reward == 1.0
        assert Session(row).reward == 0.0


def write_tables(folder: Path) -> None:
    cells = {
        "emails": "00000000,inbox,ada@x.example,Hi,2023-11-01 10:00:00,Hello",
        "calendar_events": "00000000,Tea,ada@x.example,2023-12-01 10:00:00,30",
        "analytics_data": "2023-11-01,0001,3,60,direct,True",
        "project_tasks": "00000000,Paint,ada@x.example,Backlog,2023-12-01,Design",
        "customer_relationship_manager_data": "00000000,Bo,ada@x.example,bo@y.example,,2023-11-01,Software,Lead,,",
    }
    for name, columns in COLUMNS.items():
        (folder / f"{name}.csv").write_text(f"{','.join(columns)}\n{cells[name]}\n", encoding="utf-8")
    (folder / "email_addresses.csv").write_text("email_address\nAda@x.example\n", encoding="utf-8")


def test_tables_of_ones_own_come_from_csv_files(tmp_path: Path) -> None:
    write_tables(tmp_path)
    server = WorkplaceServer.standalone(tables_folder=str(tmp_path), now="2024-01-01 00:00:00")
    client = TestClient(server.setup_webserver())
    client.post("/seed_session", json={})
    found = client.post("/company_directory_find_email_address", json={"name": "ada"}).json()
    assert found == {"output": ["ada@x.example"]}
    client.post("/email_reply_email", json={"email_id": "00000000", "body": "Yes"})
    latest = client.post("/email_search_emails", json={}).json()["output"]["emails"][0]
    assert (latest["email_id"], latest["sent_datetime"]) == ("00000001", "2024-01-01 00:00:00")
    counts = client.post("/analytics_engaged_users_count", json={}).json()
    assert counts == {"output": {"2023-11-01": 1}}


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("emails.csv", None, "emails.csv"),
        ("project_tasks.csv", "task_id,board\n1,Design\n", "no column task_name"),
        ("emails.csv", f"{','.join(COLUMNS['emails'])}\nfirst,,,,,\n", "'first' is not a number"),
        ("analytics_data.csv", f"{','.join(COLUMNS['analytics_data'])}\n2023,1,many,1,direct,True\n", "many"),
        ("email_addresses.csv", None, "email_addresses.csv"),
    ],
)
def test_tables_that_cannot_be_read_are_named(
    tmp_path: Path, file: str, content: str | None, says: str
) -> None:
    write_tables(tmp_path)
    path = tmp_path / file
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=says):
        load(str(tmp_path), "")


def test_the_examples_are_what_prepare_makes(tmp_path: Path) -> None:
    prepare(["--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == (FOLDER / "data" / "example.jsonl").read_bytes()
