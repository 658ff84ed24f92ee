"""The configuration of a gym, composed, resolved and checked before anything starts.

    config = load(["+config_paths=[a.yaml,b.yaml]", "++my_agent.responses_api_agents.simple_agent.max_steps=5"])
    config.data                                        # plain dicts, everything resolved
    config.servers                                     # the servers to start
    config.explain("my_agent.responses_api_agents.simple_agent.max_steps")

All problems are raised together, as `ConfigErrors`. No implementation is imported into the process that loads a
configuration. Importing this package is cheap: its modules are imported on first use.

Modules: `loading` (`load`), `current` (the configuration of this process), `types` and `keys` (schemas of servers and
of global keys), `servers`, `datasets`, `addresses` and `options` (checks of server blocks), `secrets`, `prompts`
(prompt templates), `bootstrap` (the document that a server process starts with), `nodes`, `problems` and
`pydantic_problems` (the parsed tree and its errors), `document` (the generated documentation). The room builds on
`nemo_gym.failures`, `nemo_gym.names` and `nemo_gym.paths`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_gym.config._provenance import Explanation
    from nemo_gym.config.loading import GlobalConfig, load, load_keys
    from nemo_gym.config.problems import ConfigErrors, Location, Problem
    from nemo_gym.config.secrets import hide_secrets, secret_values
    from nemo_gym.config.servers import ServerInstance

__all__ = [
    "ConfigErrors",
    "Explanation",
    "GlobalConfig",
    "Location",
    "Problem",
    "ServerInstance",
    "hide_secrets",
    "load",
    "load_keys",
    "secret_values",
]

_MODULE_OF = {
    "ConfigErrors": "problems",
    "Explanation": "_provenance",
    "GlobalConfig": "loading",
    "Location": "problems",
    "Problem": "problems",
    "ServerInstance": "servers",
    "hide_secrets": "secrets",
    "load": "loading",
    "load_keys": "loading",
    "secret_values": "secrets",
}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
