"""The effects of each tool and the arguments it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ToolError
from resources_servers.workplace_assistant.generator import generate
from resources_servers.workplace_assistant.tables import Workplace
from resources_servers.workplace_assistant.tool import Toolkit
from resources_servers.workplace_assistant.toolkits import TOOLS

SHARED = Path(__file__).parents[4] / "shared" / "data" / "environment_examples"
AMARA = next(address for address in generate().addresses if address.startswith("amara."))


@pytest.fixture
def workplace() -> Workplace:
    return Workplace(generate())


def use(workplace: Workplace, tool: str, /, **arguments: Any) -> Any:
    return TOOLS[tool].call(workplace, arguments)


def refused(workplace: Workplace, tool: str, /, **arguments: Any) -> str:
    before = workplace.changes()
    with pytest.raises(ToolError) as caught:
        use(workplace, tool, **arguments)
    assert workplace.changes() == before
    assert caught.value.failure.http_status == 400
    return caught.value.failure.message


def test_the_tools_are_those_of_the_ecosystems_rows() -> None:
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    row = json.loads((SHARED / "workplace_assistant.jsonl").read_text(encoding="utf-8").splitlines()[0])
    declared = row["responses_create_params"]["tools"]
    assert {tool["name"] for tool in declared} == set(TOOLS)
    for tool in declared:
        ours = TOOLS[tool["name"]].parameters
        types = {name: part["type"] for name, part in ours["properties"].items()}
        assert types == {name: part["type"] for name, part in tool["parameters"]["properties"].items()}
        assert ours["required"] == tool["parameters"]["required"]


def test_a_declaration_describes_every_argument() -> None:
    declared = TOOLS["email_forward_email"].declaration()
    assert (declared["type"], declared["name"], declared["strict"]) == (
        "function",
        "email_forward_email",
        False,
    )
    assert declared["parameters"]["required"] == ["email_id", "recipient"]
    assert all(part["description"] for part in declared["parameters"]["properties"].values())


def test_a_tool_whose_description_misses_an_argument_is_a_mistake() -> None:
    def rename(workplace: Workplace, name: str) -> None: ...

    with pytest.raises(TypeError, match="rename"):
        Toolkit("x").tool("Rename.", title="The name")(rename)


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("email_send_email", {"recipient": "a@b.example"}, "subject"),
        ("email_send_email", {"recipient": "a@b.example", "subject": "s", "body": "b", "cc": "c"}, "cc"),
        ("email_send_email", {"recipient": "Amara", "subject": "s", "body": "b"}, "no email address"),
        ("email_reply_email", {"email_id": "99999999", "body": "b"}, "no email with the id"),
        ("email_delete_email", {"email_id": "12"}, "no email with the id"),
        ("email_forward_email", {"email_id": "00000001", "recipient": "x"}, "no email address"),
        ("email_get_email_information_by_id", {"email_id": "00000001", "field": "cc"}, "choose one of"),
        ("email_search_emails", {"date_min": "yesterday"}, "YYYY-MM-DD"),
        ("email_search_emails", {"page": 0}, "start at 1"),
        ("email_search_emails", {"page": "1"}, "integer"),
        ("calendar_delete_event", {"event_id": "99999999"}, "no event"),
        ("calendar_update_event", {"event_id": "00000001", "field": "event_id", "new_value": "x"}, "field"),
        ("calendar_update_event", {"event_id": "00000001", "field": "duration", "new_value": "0"}, "minutes"),
        (
            "calendar_update_event",
            {"event_id": "00000001", "field": "event_start", "new_value": "9am"},
            "YYYY",
        ),
        (
            "analytics_create_plot",
            {"time_min": "x", "time_max": "x", "value_to_plot": "x", "plot_type": "x"},
            "x",
        ),
        ("analytics_traffic_source_count", {"traffic_source": "carrier pigeon"}, "traffic source"),
        ("analytics_get_visitor_information_by_id", {"visitor_id": "unknown"}, "no visitor"),
        ("project_management_search_tasks", {}, "at least one"),
        (
            "project_management_update_task",
            {"task_id": "00000001", "field": "board", "new_value": "Sea"},
            "board",
        ),
        (
            "project_management_update_task",
            {"task_id": "x", "field": "board", "new_value": "Design"},
            "no task",
        ),
        ("customer_relationship_manager_search_customers", {"page": 2}, "at least one"),
        (
            "customer_relationship_manager_update_customer",
            {"customer_id": "00000001", "field": "status", "new_value": "Happy"},
            "status",
        ),
        (
            "customer_relationship_manager_add_customer",
            {"customer_name": "A", "assigned_to_email": AMARA, "status": "Lead", "follow_up_by": "soon"},
            "YYYY-MM-DD",
        ),
        ("company_directory_find_email_address", {}, "give a name"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_and_change_nothing(
    workplace: Workplace, name: str, arguments: dict[str, Any], says: str
) -> None:
    assert says in refused(workplace, name, **arguments)


def test_an_argument_that_is_null_counts_as_not_given(workplace: Workplace) -> None:
    assert use(workplace, "email_search_emails", query="amara", page=None)["pagination"]["page"] == 1


def test_the_directory_finds_parts_of_names_and_whole_ones(workplace: Workplace) -> None:
    assert use(workplace, "company_directory_find_email_address", name="AMARA") == [AMARA]
    full = AMARA.partition("@")[0].replace(".", " ")
    assert use(workplace, "company_directory_find_email_address", name=full) == [AMARA]
    assert use(workplace, "company_directory_find_email_address", name="unknown") == []


def test_emails_are_found_by_all_words_within_days_latest_first(workplace: Workplace) -> None:
    found = use(workplace, "email_search_emails", query="amara inbox-less", page_size=100)
    assert found["emails"] == []
    found = use(
        workplace,
        "email_search_emails",
        query="AMARA sam",
        date_min="2023-11-10",
        date_max="2023-11-20",
        page_size=50,
    )
    dates = [email["sent_datetime"][:10] for email in found["emails"]]
    assert dates == sorted(dates, reverse=True)
    assert dates
    assert all("2023-11-10" <= date <= "2023-11-20" for date in dates)


def test_results_come_in_pages(workplace: Workplace) -> None:
    pages = [use(workplace, "email_search_emails", query="amara", page=page) for page in (1, 2)]
    assert [len(page["emails"]) for page in pages] == [5, 5]
    ids = {email["email_id"] for page in pages for email in page["emails"]}
    assert len(ids) == 10
    total = pages[0]["pagination"]["total_emails"]
    assert pages[0]["pagination"]["total_pages"] == (total + 4) // 5
    assert use(workplace, "email_search_emails", query="amara", page=99)["emails"] == []


def test_emails_are_sent_answered_forwarded_and_deleted(workplace: Workplace) -> None:
    email = use(workplace, "email_search_emails", query="amara", page_size=1)["emails"][0]
    use(workplace, "email_send_email", recipient=AMARA.upper(), subject="Hi", body="Hello")
    use(workplace, "email_reply_email", email_id=email["email_id"], body="Yes")
    use(workplace, "email_forward_email", email_id=email["email_id"], recipient="out@side.example")
    use(workplace, "email_delete_email", email_id=email["email_id"])
    changes = workplace.changes()["emails"]
    assert changes["deleted"] == {email["email_id"]: True}
    sent = [(new["sender/recipient"], new["subject"], new["body"]) for new in changes["created"]]
    assert sent == [
        (AMARA, "Hi", "Hello"),
        (AMARA, f"RE: {email['subject']}", "Yes"),
        ("out@side.example", f"FW: {email['subject']}", email["body"]),
    ]
    assert {new["inbox/outbox"] for new in changes["created"]} == {"outbox"}
    latest = use(workplace, "email_search_emails", query="hello", page_size=1)["emails"][0]
    assert latest["sent_datetime"] == workplace.now


def test_events_are_created_changed_and_found(workplace: Workplace) -> None:
    event_id = use(
        workplace,
        "calendar_create_event",
        event_name="Tea",
        participant_email=AMARA,
        event_start="2023-12-24 18:30:00",
        duration="45",
    )
    use(workplace, "calendar_update_event", event_id=event_id, field="duration", new_value="060")
    shown = use(workplace, "calendar_get_event_information_by_id", event_id=event_id, field="duration")
    assert shown == {"duration": "60"}
    for time_min, time_max, count in [
        ("2023-12-24 19:30:00", "2023-12-24 20:00:00", 1),
        ("2023-12-24 19:31:00", "2023-12-24 20:00:00", 0),
        ("2023-12-24 18:00:00", "2023-12-24 18:29:00", 0),
    ]:
        found = use(workplace, "calendar_search_events", query="tea", time_min=time_min, time_max=time_max)
        assert found["pagination"]["total_events"] == count
    use(workplace, "calendar_delete_event", event_id=event_id)
    assert workplace.changes()["events"]["created"] == []


def test_visits_are_counted_by_day(workplace: Workplace) -> None:
    days = {"time_min": "2023-11-01", "time_max": "2023-11-30"}
    total = use(workplace, "analytics_total_visits_count", **days)
    assert total == use(workplace, "analytics_traffic_source_count", **days)
    by_source = [
        use(workplace, "analytics_traffic_source_count", **days, traffic_source=source)
        for source in ("direct", "referral", "Search Engine", "social media")
    ]
    assert sum(sum(counts.values()) for counts in by_source) == sum(total.values())
    engaged = use(workplace, "analytics_engaged_users_count", **days)
    assert 0 < sum(engaged.values()) < sum(total.values())
    seconds = use(workplace, "analytics_get_average_session_duration", **days)
    assert seconds.keys() == total.keys()
    visitor = workplace.visits[0]["visitor_id"]
    assert workplace.visits[0] in use(
        workplace, "analytics_get_visitor_information_by_id", visitor_id=visitor
    )


def test_a_plot_is_remembered(workplace: Workplace) -> None:
    path = use(
        workplace,
        "analytics_create_plot",
        time_min="2023-11-01",
        time_max="2023-11-05",
        value_to_plot="visits_direct",
        plot_type="Bar",
    )
    assert path == "plots/2023-11-01_2023-11-05_visits_direct_bar.png"
    assert workplace.changes()["plots"]["created"] == [{"file_path": path}]


def test_tasks_are_found_by_everything_that_is_given(workplace: Workplace) -> None:
    found = use(workplace, "project_management_search_tasks", assigned_to_email="amara", list_name="backlog")
    assert found
    assert all(task["assigned_to_email"] == AMARA and task["list_name"] == "Backlog" for task in found)


def test_choices_are_taken_in_any_case_and_kept_in_one(workplace: Workplace) -> None:
    task_id = use(
        workplace,
        "project_management_create_task",
        task_name="Paint",
        assigned_to_email=AMARA,
        list_name="in progress",
        due_date="2023-12-05",
        board="front END",
    )
    use(
        workplace, "project_management_update_task", task_id=task_id, field="LIST_NAME", new_value="completed"
    )
    created = workplace.changes()["tasks"]["created"]
    assert [(task["list_name"], task["board"]) for task in created] == [("Completed", "Front end")]
    use(workplace, "project_management_delete_task", task_id=task_id)
    assert workplace.changes()["tasks"]["created"] == []


def test_customers_are_found_added_changed_and_deleted(workplace: Workplace) -> None:
    customer_id = use(
        workplace,
        "customer_relationship_manager_add_customer",
        customer_name="Zoe Quill",
        assigned_to_email=AMARA,
        status="lead",
    )
    add_no_dates = use(
        workplace,
        "customer_relationship_manager_search_customers",
        customer_name="zoe",
        last_contact_date_max="2023-12-31",
    )
    assert add_no_dates["customers"] == []
    change = {"customer_id": customer_id, "field": "follow_up_by", "new_value": "2023-12-24"}
    use(workplace, "customer_relationship_manager_update_customer", **change)
    found = use(
        workplace,
        "customer_relationship_manager_search_customers",
        customer_name="zoe",
        follow_up_by_min="2023-12-24",
    )
    assert [customer["status"] for customer in found["customers"]] == ["Lead"]
    use(workplace, "customer_relationship_manager_delete_customer", customer_id=customer_id)
    assert workplace.changes()["customers"]["created"] == []
