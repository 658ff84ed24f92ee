"""The model servers of a run, their roles, and the prices of their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Problem, did_you_mean
from nemo_gym.rollouts.run.options import BudgetOptions, PriceKeys
from nemo_gym.rollouts.run.required_servers import MODEL_TYPE, find_required_servers, is_server
from nemo_gym.transport.budget import Price
from nemo_gym.transport.directory import server_block

_ROLES = ("judge", "user")


@dataclass(frozen=True, slots=True)
class PricedServer:
    """A model server of a run."""

    name: str
    model: str
    """The model that it asks."""
    role: str
    """`policy`, `judge` or `user`, by the keys of the servers that refer to it."""
    price: Price | None = None


def list_model_servers(
    agents: Iterable[str], config: Mapping[str, Any], prices: Mapping[str, PriceKeys]
) -> list[PricedServer]:
    """Return the model servers that rollouts of `agents` may call, with the prices of the servers or their models."""
    servers = find_required_servers(agents, config)
    roles = dict(_list_roles(servers))
    found = []
    for name in sorted(servers):
        if is_server(servers[name], MODEL_TYPE):
            model = str((server_block(servers[name]) or {}).get("model") or name)
            keys = prices.get(name) or prices.get(model)
            found.append(PricedServer(name, model, roles.get(name, "policy"), _read_price(keys)))
    return found


def require_prices(options: BudgetOptions, servers: Iterable[PricedServer]) -> None:
    """Raise `ConfigErrors` for every model whose price a run with prices or limits of cost does not know."""
    servers = list(servers)
    limits_cost = any(amounts.cost is not None for _, amounts in options.budget)
    problems = []
    for server in servers:
        if server.price is None and (options.prices or limits_cost):
            near = did_you_mean(server.model, list(options.prices))
            example = f"\"+prices.'{server.model}'={{input: 1, cached: 0.1, output: 4}}\""
            problems.append(
                Problem(
                    None,
                    f"the price of the model {server.model!r} of `{server.name}` ({server.role}) is unknown",
                    near or f"Give the price of a million tokens: {example}; 0 for an engine of your own.",
                )
            )
    known = {name for server in servers for name in (server.model, server.name)}
    problems += [
        Problem(
            None,
            f"+prices has {name!r}, which no model server of the run asks",
            did_you_mean(name, known) or f"Its models are {', '.join(sorted(known))}.",
        )
        for name in sorted(options.prices.keys() - known)
    ]
    if problems:
        raise ConfigErrors(problems)


def _read_price(keys: PriceKeys | None) -> Price | None:
    if keys is None:
        return None
    return Price(keys.input, keys.input if keys.cached is None else keys.cached, keys.output)


def _list_roles(servers: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield model servers with their roles; of several roles, the first of policy, judge, user."""
    found: dict[str, set[str]] = {}
    for instance in servers.values():
        for key, name in _list_references(server_block(instance), ""):
            role = next((role for role in _ROLES if role in key), "policy")
            found.setdefault(name, set()).add(role)
    for name, roles in found.items():
        yield name, next(role for role in ("policy", *_ROLES) if role in roles)


def _list_references(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield the keys and names of references to model servers, at any depth of a block."""
    if isinstance(value, Mapping):
        if value.get("type") == MODEL_TYPE and isinstance(value.get("name"), str):
            yield key, value["name"]
        for name, inner in value.items():
            yield from _list_references(inner, str(name))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _list_references(inner, key)
