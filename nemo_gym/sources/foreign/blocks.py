"""The configuration of a foreign environment that a command line names: a server, and the agent that plays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.names import ServerKind
from nemo_gym.sources.foreign.kinds import ForeignName

_POLICY = "policy_model"


def name_agent(named: ForeignName) -> str:
    return f"{named.block}_agent"


def build_blocks(
    named: ForeignName,
    *,
    options: Mapping[str, Any] | None = None,
    opponent: str | None = None,
    max_steps: int | None = None,
    venvs: str | None = None,
) -> dict[str, Any]:
    """Return the configuration of an environment, as the content of a YAML file."""
    kind = named.kind
    server: dict[str, Any] = {
        "entrypoint": "app.py",
        "source": str(named),
        **({"options": dict(options)} if options else {}),
        **({"venvs": venvs} if venvs else {}),
        "opponent_model_server": _refer("responses_api_models", opponent or _POLICY),
        "domain": kind.domain,
        "verified": False,
        "description": f"{named.name} of {kind.title}",
    }
    agent = {
        "entrypoint": "app.py",
        "resources_server": _refer("resources_servers", named.block),
        "model_server": _refer("responses_api_models", _POLICY),
        "max_steps": max_steps or kind.max_steps,
        **({"reward": kind.reward} if kind.loop == "ours" else {}),
    }
    player = "gymnasium_agent" if kind.loop == "ours" else "foreign_agent"
    return {
        named.block: {"resources_servers": {"foreign": server}},
        name_agent(named): {"responses_api_agents": {player: agent}},
    }


def _refer(kind: ServerKind, name: str) -> dict[str, str]:
    return {"type": kind, "name": name}
