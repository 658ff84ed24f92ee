"""The global keys: every top-level key of a configuration that is not a server.

`docs/configuration.md` and `--help` are generated from the descriptions in this module.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo

from nemo_gym.names import DEFAULT_HEAD_SERVER_PORT, DEFAULT_MAX_BODY_MIB

DEFAULT_HOST = "127.0.0.1"
DEFAULT_HOST_COMMAND = "ssh -o BatchMode=yes {host}"


def _pointless(reason: str) -> Any:
    """Declare a key that is accepted without effect, because configurations of other gyms have it."""
    return Field(
        None, description=f"Accepted and without effect: {reason}", json_schema_extra={"pointless": reason}
    )


def is_pointless(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and "pointless" in extra


class HeadServerKeys(BaseModel, extra="forbid", frozen=True):
    """The address of the head server."""

    host: str | None = Field(None, description="Its address; by default `default_host`.")
    port: int = Field(DEFAULT_HEAD_SERVER_PORT, ge=0, le=65535, description="Its port; 0 for any free port.")
    num_workers: int | None = Field(None, ge=1, le=1, description="Always one.")


class HostKeys(BaseModel, extra="forbid", frozen=True):
    """A machine of a gym, and what it has."""

    host: str = Field(min_length=1, description="Its name or address, as `host_command` takes it.")
    num_cpus: float | None = Field(
        None, ge=0, description="Its CPUs; by default those that its node host may use."
    )
    num_gpus: int | None = Field(
        None, ge=0, description="Its GPUs; by default those that its node host may use."
    )
    resources: dict[str, float] = Field(
        default_factory=dict, description="Amounts of resources with names of your own."
    )


class RayRuntimeEnv(BaseModel, extra="forbid", frozen=True):
    """Packages, code and variables that Ray brings to every node: the keys of Ray's `runtime_env` that are used."""

    pip: str | list[str] | dict[str, Any] | None = Field(
        None, description="Packages that pip installs: a list, a requirements file, or Ray's mapping."
    )
    uv: str | list[str] | dict[str, Any] | None = Field(
        None, description="Packages that uv installs, in the same forms."
    )
    working_dir: str | None = Field(
        None, description="A folder that is copied to every node, and in which servers start."
    )
    excludes: list[str] = Field(default_factory=list, description="Patterns of files that are not copied.")
    py_modules: list[str] = Field(
        default_factory=list, description="Folders of modules, or wheels, that are copied to every node."
    )
    env_vars: dict[str, str] = Field(default_factory=dict, description="Variables of the servers.")
    config: dict[str, Any] = Field(
        default_factory=dict, description="Ray's options for the build, such as `setup_timeout_seconds`."
    )


class TlsKeys(BaseModel, extra="forbid", frozen=True):
    """The files of TLS between the processes of a gym, at the same paths on every machine."""

    ca: str = Field(description="The certificates that clients of the gym trust, and no others.")
    cert: str | None = Field(
        None, description="This machine's certificate, with those between it and `ca`. Servers need it."
    )
    key: str | None = Field(None, description="The private key of `cert`, which only its owner can read.")

    @property
    def ca_file(self) -> str:
        """The absolute path of `ca`."""
        return str(Path(self.ca).expanduser().absolute())


class GlobalKeys(BaseModel, extra="ignore", frozen=True):
    """The global keys, their types, defaults and meanings."""

    config_paths: list[str] | None = Field(
        None,
        description="Configuration files, relative to the working directory or to the folder of the package.",
    )
    default_host: str = Field(DEFAULT_HOST, description="The address of every server without its own.")
    use_absolute_ip: bool = Field(
        False, description="Listen on this machine's network address if `default_host` is not given."
    )
    run_token: str | None = Field(
        None,
        min_length=16,
        description="The token that control routes require, and every route of a server that other machines can reach. "
        "Without one, servers listen on loopback only.",
    )
    allowed_hosts: list[str] = Field(
        default_factory=list,
        description="Names under which servers are called, beside localhost, IP addresses and bound hosts. Requests "
        "with another Host, or from web pages of another Origin, are refused. Only the command line and `env.yaml` may "
        "set it.",
    )
    open_network: bool = Field(
        False,
        description="Let every machine that reaches a server call it without the token, except for its control routes. "
        "Only the command line and `env.yaml` may set it.",
    )
    max_body_mib: float = Field(
        DEFAULT_MAX_BODY_MIB,
        gt=0,
        allow_inf_nan=False,
        description="The largest body in MiB of a request without the run's token, such as that of an agent with a "
        "rollout's key. A request with the token may have any size.",
    )
    tls: TlsKeys | None = Field(
        None,
        description="`{cert, key, ca}`: files in PEM form, at the same paths on every machine. With it, all servers "
        "and node hosts speak TLS only.",
    )
    head_server: HeadServerKeys = Field(
        default_factory=HeadServerKeys,
        description=f"`{{host, port}}` of the head server; the default port is {DEFAULT_HEAD_SERVER_PORT}.",
    )
    hosts: list[str | HostKeys] = Field(
        default_factory=list,
        description="The machines of `+placement=hosts`: names, or mappings with `host`, `num_cpus`, `num_gpus` and "
        "`resources`. With `+placement=ray` the names of the nodes to use.",
    )
    host_command: str = Field(
        DEFAULT_HOST_COMMAND,
        description="The command that starts a program on a host, before the program's own words.",
    )
    ray_address: str | None = Field(
        None,
        description="The head of the Ray cluster of `+placement=ray`, as host:port; by default RAY_ADDRESS, or the "
        "cluster of this machine (auto).",
    )
    ray_runtime_env: str | RayRuntimeEnv | None = Field(
        None,
        description="Packages, code and variables that Ray brings to every node of `+placement=ray`: a mapping with "
        "`pip`, `uv`, `working_dir`, `excludes`, `py_modules`, `env_vars` and `config`, or a YAML or JSON file.",
    )
    advertised_host: str | None = Field(
        None, description="This machine's address for the hosts; by default that of its default route."
    )
    port_range_low: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="The lowest port for servers without their own; by default the system chooses.",
    )
    port_range_high: int | None = Field(
        None, ge=1, le=65535, description="The highest port for servers without their own."
    )
    disallowed_ports: list[int] = Field(
        default_factory=list, description="Ports that are not assigned to servers."
    )
    dry_run: bool = Field(
        False,
        description="Prepare the environments of servers, then stop without starting them; a collection tells what it "
        "will spend.",
    )
    startup_timeout_s: float = Field(
        600.0, gt=0, description="Seconds that a server may take until its first response."
    )
    error_on_almost_servers: bool = Field(
        True,
        description="Reject incomplete server blocks. With `false`, they are left out with a warning.",
    )
    skip_verification: bool | None = Field(
        None,
        description="Default of every agent: give each rollout `skip_verification_reward` without verification.",
    )
    skip_verification_reward: float | None = Field(None, description="The reward of unverified rollouts.")
    policy_base_url: str | list[str] | None = Field(
        None, description="The URL of the policy model's API; several URLs share the load."
    )
    policy_api_key: str | None = Field(None, description="The API key for `policy_base_url`.")
    policy_model_name: str | None = Field(None, description="The name of the policy model in that API.")
    allow_unsandboxed: bool = Field(
        False,
        description="Run code of models even where it cannot be isolated from this machine. Only the command line and "
        "`env.yaml` may set it.",
    )
    hf_token: str | None = Field(None, description="The token for the Hugging Face hub.")
    global_aiohttp_client_request_debug: bool = Field(
        False, description="Let agents log the whole answers of services that refuse their requests."
    )
    observability_enabled: bool = Field(
        False, description="Write the calls of model servers to `model_call_capture_dir`."
    )
    model_call_capture_dir: str | None = Field(
        None,
        description="The folder of captured model calls, one file per rollout; by default `results/model_calls`.",
    )
    discovery_name: str | None = Field(
        None,
        pattern=r"^[\w-]+$",
        description="The name of the gym among those of one folder. By default a second one gets a number.",
    )
    nemo_gym_log_dir: str | None = Field(None, description="The folder for one log file per server.")
    uvicorn_logging_show_200_ok: Any = _pointless("successful requests are not logged.")
    profiling_enabled: Any = _pointless("there is no built-in profiler; attach one to a server's process.")
    ray_head_node_address: Any = _pointless("`+placement=ray` takes `ray_address`.")
    global_aiohttp_connector_limit: Any = _pointless("the limit of open files is the limit of connections.")
    global_aiohttp_connector_limit_per_host: Any = _pointless(
        "the limit of open files is the limit of connections."
    )
    skip_venv_if_present: Any = _pointless(
        "a server's environment is always reused if it satisfies the requirements."
    )
    uv_venv_dir: Any = _pointless("environments are cached by content in one folder.")
    uv_cache_dir: Any = _pointless("environments are cached by content in one folder.")
    uv_pip_set_python: Any = _pointless("environments are built for the running interpreter.")
    python_version: Any = _pointless("environments are built for the running interpreter.")
    pip_install_verbose: Any = _pointless("the output of a failed installation is always printed.")
    head_server_deps: Any = _pointless("servers share the environment of the command.")
    rollout_collection_driver: Any = _pointless("the commands of this gym collect the rollouts.")
    allow_openai_version_skew: Any = _pointless(
        "servers exchange plain JSON, whichever client version they use."
    )


def own_address() -> str:
    """Return this machine's address in the network of its default route, or loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
        try:
            unconnected.connect(("192.0.2.1", 9))  # a datagram socket sends nothing on connect
        except OSError:
            return DEFAULT_HOST  # there is no route
        return str(unconnected.getsockname()[0])
