"""The company's customers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from resources_servers.workplace_assistant.tables import Workplace
from resources_servers.workplace_assistant.tool import Toolkit, refusal
from resources_servers.workplace_assistant.toolkits import arguments

TOOLKIT = Toolkit("customer_relationship_manager")
STATUSES = ("Qualified", "Won", "Lost", "Lead", "Proposal")
PRODUCTS = ("Software", "Hardware", "Services", "Consulting", "Training")
_NOUN = "customer"
_CHECKS: Mapping[str, Callable[[str], str]] = {
    "customer_name": str.strip,
    "assigned_to_email": arguments.address,
    "customer_email": arguments.address,
    "customer_phone": str.strip,
    "last_contact_date": arguments.date,
    "product_interest": partial(arguments.one_of, choices=PRODUCTS, what="product"),
    "status": partial(arguments.one_of, choices=STATUSES, what="status"),
    "notes": str.strip,
    "follow_up_by": arguments.date,
}


@TOOLKIT.tool(
    "Search customers. At least one thing to look for is needed; a customer is found who has all of them.",
    customer_name="The name or a part of it",
    customer_email="The customer's address or a part of it",
    product_interest=f"One of: {', '.join(PRODUCTS)}",
    status=f"One of: {', '.join(STATUSES)}",
    assigned_to_email="The address, or a part of it, of who looks after the customer",
    last_contact_date_min="Last contacted on this day or later, YYYY-MM-DD",
    last_contact_date_max="Last contacted on this day or earlier, YYYY-MM-DD",
    follow_up_by_min="To be contacted on this day or later, YYYY-MM-DD",
    follow_up_by_max="To be contacted on this day or earlier, YYYY-MM-DD",
    page="Which page of the results, from 1",
    page_size="How many customers a page",
)
def search_customers(
    workplace: Workplace,
    customer_name: str = "",
    customer_email: str = "",
    product_interest: str = "",
    status: str = "",
    assigned_to_email: str = "",
    last_contact_date_min: str = "",
    last_contact_date_max: str = "",
    follow_up_by_min: str = "",
    follow_up_by_max: str = "",
    page: int = 1,
    page_size: int = 5,
) -> dict[str, Any]:
    parts = {
        "customer_name": customer_name,
        "customer_email": customer_email,
        "product_interest": product_interest,
        "status": status,
        "assigned_to_email": assigned_to_email,
    }
    ranges = {
        "last_contact_date": (last_contact_date_min, last_contact_date_max),
        "follow_up_by": (follow_up_by_min, follow_up_by_max),
    }
    if not any(parts.values()) and not any(map(any, ranges.values())):
        raise refusal("give at least one thing to look for")
    bounds = {
        field: (arguments.date(low) if low else None, arguments.date(high) if high else None)
        for field, (low, high) in ranges.items()
    }
    found = [
        row
        for row in workplace.customers.rows()
        if all(part.strip().casefold() in row[field].casefold() for field, part in parts.items())
        and all(_lies_within(row[field], low, high) for field, (low, high) in bounds.items())
    ]
    return arguments.page_of(found, "customers", page, page_size)


def _lies_within(day: str, low: str | None, high: str | None) -> bool:
    """Return whether a day lies in a range. An empty day matches only an empty range."""
    if low is None and high is None:
        return True
    return bool(day) and (low or "") <= day <= (high or "9999")


@TOOLKIT.tool(
    "Change a field of a customer.",
    customer_id="The id of the customer",
    field="One of: customer_name, assigned_to_email, customer_email, customer_phone, last_contact_date, "
    "product_interest, status, notes, follow_up_by",
    new_value="What it should be",
)
def update_customer(workplace: Workplace, customer_id: str, field: str, new_value: str) -> str:
    arguments.existing(workplace.customers, customer_id, _NOUN)
    name = arguments.one_of(field, _CHECKS, "field that can be changed")
    workplace.customers.update(customer_id, name, _CHECKS[name](new_value))
    return "The customer has been changed."


@TOOLKIT.tool(
    "Add a customer; the answer is the id.",
    customer_name="The name",
    assigned_to_email="The address of who looks after the customer",
    status=f"One of: {', '.join(STATUSES)}",
    customer_email="The customer's address",
    customer_phone="The customer's telephone number",
    last_contact_date="When the customer was last contacted, YYYY-MM-DD",
    product_interest=f"One of: {', '.join(PRODUCTS)}",
    notes="What else is to be known",
    follow_up_by="When the customer should be contacted again, YYYY-MM-DD",
)
def add_customer(
    workplace: Workplace,
    customer_name: str,
    assigned_to_email: str,
    status: str,
    customer_email: str = "",
    customer_phone: str = "",
    last_contact_date: str = "",
    product_interest: str = "",
    notes: str = "",
    follow_up_by: str = "",
) -> str:
    given = {
        "customer_name": customer_name,
        "assigned_to_email": assigned_to_email,
        "status": status,
        "customer_email": customer_email,
        "customer_phone": customer_phone,
        "last_contact_date": last_contact_date,
        "product_interest": product_interest,
        "notes": notes,
        "follow_up_by": follow_up_by,
    }
    return workplace.customers.insert(
        {field: _CHECKS[field](value) if value else "" for field, value in given.items()}
    )


@TOOLKIT.tool("Delete a customer.", customer_id="The id of the customer")
def delete_customer(workplace: Workplace, customer_id: str) -> str:
    arguments.existing(workplace.customers, customer_id, _NOUN)
    workplace.customers.delete(customer_id)
    return "The customer has been deleted."
