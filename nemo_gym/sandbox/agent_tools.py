"""Calls of an agent whose harness runs in a sandbox: server addresses, MCP tools and verification."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from nemo_gym.config.types import ResourcesServerRef
from nemo_gym.names import MCP_METADATA_KEY
from nemo_gym.protocol.failure_kinds import AGENT_RUN_ERROR
from nemo_gym.transport.server_client import (
    ServerClient,
    get_response_json,
    get_server_url,
    raise_for_status,
)

_POLICY_PROVIDER = "opensandbox"


def sandbox_server_url(name: str, *, require_reachable: bool = False) -> str:
    """The base URL of a server. Raises ValueError for a loopback address if it must be reachable from elsewhere."""
    url = get_server_url(name)
    if require_reachable:
        _reachable_host(url)
    return url


def restricted_network_policy(provider_name: str, urls: Sequence[str]) -> dict[str, Any]:
    """A network policy that allows only the hosts of `urls`.

    Raises ValueError for a provider that has no such policies, and for a host that a sandbox cannot reach.
    """
    if provider_name != _POLICY_PROVIDER:
        raise ValueError(
            f"a restricted network needs the sandbox provider OpenSandbox, not {provider_name!r}"
        )
    hosts = sorted({_reachable_host(url) for url in urls})
    return {
        "defaultAction": "deny",
        "egress": [{"action": "allow", "target": host} for host in hosts],
    }


async def seed_mcp_servers(
    client: ServerClient,
    servers: Sequence[ResourcesServerRef],
    body: BaseModel,
    cookies: Mapping[str, str],
    *,
    timeout_s: float,
    require_reachable: bool = False,
) -> dict[str, dict[str, Any]]:
    """Open a session at every server, and return its MCP endpoint for a harness.

    Server name → `url`, `headers` with the session's token, `enabled`, and `timeout` in milliseconds.
    """
    entries = {}
    for server in servers:
        reply = await client.post(
            server_name=server.name,
            url_path="/seed_session",
            json=body.model_dump(mode="json"),
            cookies=dict(cookies),
        )
        await raise_for_status(reply)
        endpoint = (await get_response_json(reply)).get(MCP_METADATA_KEY) or {}
        if not (endpoint.get("url_path") and endpoint.get("headers")):
            raise ValueError(
                f"{server.name} gives no authenticated MCP endpoint; set `expose_tools_over_mcp: true` there"
            )
        url = sandbox_server_url(server.name, require_reachable=require_reachable)
        entries[server.name] = {
            "url": url.rstrip("/") + endpoint["url_path"],
            "headers": endpoint["headers"],
            "enabled": True,
            "timeout": int(timeout_s * 1000),
        }
    return entries


async def verify_agent_response(
    client: ServerClient,
    server: ResourcesServerRef,
    body: BaseModel,
    response: BaseModel,
    cookies: Mapping[str, str],
    *,
    force_zero_reward: bool,
) -> dict[str, Any]:
    """Verify a response.

    With `force_zero_reward` the agent has failed: the verifier gets the response without its output, so that all its
    scores are those of an empty answer, and the row keeps the whole response.
    """
    whole = response.model_dump(mode="json")
    given = {**whole, "output": []} if force_zero_reward else whole
    reply = await client.post(
        server_name=server.name,
        url_path="/verify",
        json={**body.model_dump(mode="json"), "response": given},
        cookies=dict(cookies),
    )
    await raise_for_status(reply)
    verdict: dict[str, Any] = await get_response_json(reply)
    if force_zero_reward:
        verdict |= {"response": whole, "reward": 0.0, "failure_kind": AGENT_RUN_ERROR}
    return verdict


def _reachable_host(url: str) -> str:
    """The host of a URL. Raises ValueError for one that means the caller's own machine."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
        is_local = address.is_loopback or address.is_unspecified
    except ValueError:
        is_local = host in ("", "localhost") or host.endswith(".localhost")
    if is_local:
        raise ValueError(
            f"{url} is not reachable from a sandbox; set `default_host` to an address of this machine"
        )
    return host
