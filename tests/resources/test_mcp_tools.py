from __future__ import annotations

import pytest
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from nemo_gym.failures import ConfigError
from nemo_gym.resources.mcp_tools import MCPTool, bare_tool_name, check_tools, harvest_tools


class Order(BaseModel):
    item: str


def test_the_tools_of_an_included_router_are_offered_with_its_prefix() -> None:
    app, router = FastAPI(), APIRouter(prefix="/shop")

    @router.post("/buy")
    async def buy(body: Order) -> None:
        """Buy an item."""

    @router.get("/price")
    async def price() -> None: ...

    app.include_router(router)
    (tool,), catch_all = harvest_tools(app, taken=())
    assert (tool.name, tool.path, tool.description, catch_all) == (
        "shop/buy",
        "/shop/buy",
        "Buy an item.",
        None,
    )
    assert tool.input_schema["required"] == ["item"]


def test_prefixes_of_clients_are_removed() -> None:
    assert bare_tool_name("mcp__shop__buy") == "buy"
    assert bare_tool_name("mcp__shop__buy__now", "shop") == "buy__now"
    assert bare_tool_name("mcp__other__buy", "shop") == "mcp__other__buy"
    assert bare_tool_name("buy") == "buy"


@pytest.mark.parametrize("name", ["a b", "", "verify", "tools/buy"])
def test_a_name_that_is_reserved_or_illegal_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="no names of tools"):
        check_tools("shop", [MCPTool(name, "/x")])


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="twice"):
        check_tools("shop", [MCPTool("buy", "/buy"), MCPTool("buy", "/buy2")])
    assert check_tools("shop", None) == {}
