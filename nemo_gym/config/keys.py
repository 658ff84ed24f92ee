"""The global keys: every top-level key of a configuration that is not a server.

A key is documented where it is defined; `docs/configuration.md` and `--help` are made from here.
"""

from __future__ import annotations

import socket
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from nemo_gym.names import DEFAULT_HEAD_SERVER_PORT

DEFAULT_HOST = "127.0.0.1"


def _pointless(reason: str) -> Any:
    """A key that is accepted because configurations of other gyms have it, and that changes nothing here."""
    return Field(
        None, description=f"Accepted and without effect: {reason}", json_schema_extra={"pointless": reason}
    )


def is_pointless(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and "pointless" in extra


class HeadServerKeys(BaseModel):
    """Where the head server listens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str | None = Field(None, description="Its address; `default_host` unless given.")
    port: int = Field(DEFAULT_HEAD_SERVER_PORT, ge=0, le=65535, description="Its port; 0 for any free one.")
    num_workers: int | None = Field(None, ge=1, le=1, description="Always one.")


class GlobalKeys(BaseModel):
    """The global keys, their types, defaults and meanings."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    config_paths: list[str] | None = Field(
        None, description="Configuration files. Looked up in the working directory, then beside the package."
    )
    default_host: str = Field(DEFAULT_HOST, description="The address of every server that names none.")
    use_absolute_ip: bool = Field(
        False, description="Listen on this machine's own address, where `default_host` is not given."
    )
    run_token: str | None = Field(
        None,
        min_length=16,
        description="The token that control routes ask for. Without one a server listens on loopback only.",
    )
    head_server: HeadServerKeys = Field(
        default_factory=HeadServerKeys,
        description=f"`{{host, port}}` of the head server; port {DEFAULT_HEAD_SERVER_PORT} unless given.",
    )
    port_range_low: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="The lowest port for servers that name none; the system chooses unless given.",
    )
    port_range_high: int | None = Field(None, ge=1, le=65535, description="The highest such port.")
    disallowed_ports: list[int] = Field(default_factory=list, description="Ports that no server is given.")
    dry_run: bool = Field(
        False, description="Prepare everything that servers need, then stop before starting them."
    )
    startup_timeout_s: float = Field(
        600.0, gt=0, description="How many seconds a server may take from its start to its first answer."
    )
    error_on_almost_servers: bool = Field(
        True,
        description="Refuse a block that is almost a server. With `false` it is left out, with a warning.",
    )
    skip_verification: bool | None = Field(
        None,
        description="Agents that do not say otherwise give every rollout `skip_verification_reward`, unverified.",
    )
    skip_verification_reward: float | None = Field(None, description="The reward of unverified rollouts.")
    policy_base_url: str | list[str] | None = Field(
        None, description="Where the policy model is served; several URLs share the load."
    )
    policy_api_key: str | None = Field(None, description="The key for `policy_base_url`.")
    policy_model_name: str | None = Field(None, description="The policy model's name there.")
    hf_token: str | None = Field(None, description="The token for the Hugging Face hub.")
    nemo_gym_log_dir: str | None = Field(None, description="The folder for one log file per server.")
    observability_enabled: Any = _pointless("the timing and usage of every rollout are always in its row.")
    uvicorn_logging_show_200_ok: Any = _pointless("requests that succeed are not logged one by one.")
    profiling_enabled: Any = _pointless("no profiler is built in; attach one to a server's process.")
    ray_head_node_address: Any = _pointless("servers run on the machine of the command.")
    global_aiohttp_connector_limit: Any = _pointless(
        "a process holds as many connections as it may open files."
    )
    global_aiohttp_connector_limit_per_host: Any = _pointless(
        "a process holds as many connections as it may open files."
    )
    skip_venv_if_present: Any = _pointless("a server's environment is always reused while it fits.")
    uv_venv_dir: Any = _pointless("environments are kept by content, in one place.")
    uv_cache_dir: Any = _pointless("environments are kept by content, in one place.")
    uv_pip_set_python: Any = _pointless("environments are built for the running interpreter.")
    python_version: Any = _pointless("environments are built for the running interpreter.")
    pip_install_verbose: Any = _pointless("the output of a failed installation is always shown.")
    head_server_deps: Any = _pointless("servers share the environment of the command.")
    allow_openai_version_skew: Any = _pointless("servers exchange plain JSON, whatever client they have.")


def own_address() -> str:
    """This machine's address on the network that its default route leads to; loopback without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
        try:
            unconnected.connect(("192.0.2.1", 9))  # a datagram socket sends nothing on connect
        except OSError:
            return DEFAULT_HOST  # no route at all
        return str(unconnected.getsockname()[0])
