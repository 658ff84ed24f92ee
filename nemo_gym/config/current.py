"""The global configuration of this process.

In a server it comes from the launcher, in a command from the command line. Any other program reads it from its own
command line on first use: its arguments in the form of overrides (`+key=value`, `++key=value`, `key=value`, `~key`),
with keys of any name. Its other arguments, such as the flags of a test runner, are its own. OmegaConf is imported only
then. `nemo_gym.global_config` re-exports this module.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from nemo_gym import names
from nemo_gym.config.problems import did_you_mean
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.options import Inspect

CACHE_DIR_KEY_NAME = "cache_dir"
CONFIG_PATHS_KEY_NAME = "config_paths"
DEFAULT_HOST_KEY_NAME = "default_host"
DISALLOWED_PORTS_KEY_NAME = "disallowed_ports"
DRY_RUN_KEY_NAME = "dry_run"
ENTRYPOINT_KEY_NAME = "entrypoint"
HF_TOKEN_KEY_NAME = "hf_token"
OBSERVABILITY_ENABLED_KEY_NAME = "observability_enabled"
POLICY_API_KEY_KEY_NAME = "policy_api_key"
POLICY_BASE_URL_KEY_NAME = "policy_base_url"
POLICY_MODEL_KEY_NAME = "policy_model"
POLICY_MODEL_NAME_KEY_NAME = "policy_model_name"
PORT_RANGE_HIGH_KEY_NAME = "port_range_high"
PORT_RANGE_LOW_KEY_NAME = "port_range_low"
REQUEST_DEBUG_KEY_NAME = "global_aiohttp_client_request_debug"
RESULTS_DIR_KEY_NAME = "results_dir"
TOKEN_ID_CAPTURE_BLOCK = "token_id_capture"

_OVERRIDE = re.compile(r"(?:\+\+?|~)[A-Za-z_].*|[A-Za-z_][\w.-]*=.*", re.DOTALL)

_current: DictConfig | None = None
_given: Mapping[str, Any] | None = None


class _NoModel:
    """Creates, on access, a configuration with a policy model that is never started, for callers that need none."""

    def __get__(self, instance: object, owner: type) -> DictConfig:
        placeholder = {"responses_api_models": {"dummy_model": {"entrypoint": "app.py"}}}
        return to_dict_config(
            {
                POLICY_BASE_URL_KEY_NAME: "",
                POLICY_API_KEY_KEY_NAME: "",
                POLICY_MODEL_NAME_KEY_NAME: "",
                POLICY_MODEL_KEY_NAME: placeholder,
            }
        )


class GlobalConfigDictParserConfig(BaseModel, arbitrary_types_allowed=True, extra="forbid"):
    """The sources of a configuration, for programs that embed a gym."""

    dotenv_path: Path | None = None
    """The file to read instead of `env.yaml`. It need not exist."""
    initial_global_config_dict: Any = None
    """A mapping or `DictConfig` that overrides `env.yaml` and is overridden by the command line."""
    skip_load_from_cli: bool = False
    skip_load_from_dotenv: bool = False
    hide_secrets: bool = False
    """Return a configuration for display, with its secrets replaced."""
    offline: bool = False
    """Accepted without effect: reading a configuration starts nothing."""

    NO_MODEL_GLOBAL_CONFIG_DICT: ClassVar[_NoModel] = _NoModel()


class GlobalConfigDictParser:
    """Reads a configuration."""

    def parse(self, parse_config: GlobalConfigDictParserConfig | None = None) -> DictConfig:
        """Return the configuration as a `DictConfig`. Raises `ConfigErrors` with all problems.

        Every server has `host` and `port`, so that its block is a valid config of its class. Port 0 is any free one.
        """
        config = self.load(parse_config)
        is_hidden = parse_config is not None and parse_config.hide_secrets
        data = config.hide_secrets() if is_hidden else config.data
        for server in config.servers:
            block = data[server.name][server.kind][server.implementation]
            block.setdefault("host", data[DEFAULT_HOST_KEY_NAME])
            block.setdefault("port", 0)
        return to_dict_config(data)

    def parse_no_environment(self, initial_global_config_dict: Any = None) -> DictConfig:
        """Return the configuration of `initial_global_config_dict` alone."""
        return self.parse(
            GlobalConfigDictParserConfig(
                initial_global_config_dict=initial_global_config_dict,
                skip_load_from_cli=True,
                skip_load_from_dotenv=True,
            )
        )

    def load(
        self,
        parse_config: GlobalConfigDictParserConfig | None = None,
        *,
        command_keys: type[BaseModel] | None = None,
        inspect: Inspect | None = None,
    ) -> GlobalConfig:
        """Return the configuration with its servers and origins. The options are as in `nemo_gym.config.load`.

        Raises `ConfigErrors`.
        """
        from nemo_gym.config.loading import ENV_FILE, load

        given = parse_config or GlobalConfigDictParserConfig()
        env_path: Path | None = given.dotenv_path or ENV_FILE
        if given.skip_load_from_dotenv or not Path.cwd().joinpath(env_path or "").is_file():
            env_path = None
        is_embedded = given.initial_global_config_dict is not None
        return load(
            [] if given.skip_load_from_cli else _list_program_overrides(),
            env_path=env_path,
            initial=plain_dict(given.initial_global_config_dict or {}),
            makes_token=is_embedded,
            keeps_typed_keys=True,
            command_keys=command_keys,
            inspect=inspect,
        )


def get_global_config_dict(
    global_config_dict_parser_config: GlobalConfigDictParserConfig | None = None,
    global_config_dict_parser_cls: type[GlobalConfigDictParser] = GlobalConfigDictParser,
) -> DictConfig:
    """Return this process's resolved configuration. The first call reads it with the given parser."""
    global _current
    found = maybe_get_global_config_dict()
    if found is None:
        found = _current = global_config_dict_parser_cls().parse(global_config_dict_parser_config)
    return found


def maybe_get_global_config_dict() -> DictConfig | None:
    """Return this process's configuration, or None if it was not read yet."""
    global _current
    if _current is None:
        plain = _given if _given is not None else _read_server_config()
        _current = to_dict_config(plain) if plain is not None else None
    return _current


def set_global_config_dict(config: Mapping[str, Any] | None) -> None:
    """Set this process's configuration. None removes it."""
    global _current, _given
    _current, _given = None, config


@contextmanager
def configured(config: Mapping[str, Any]) -> Iterator[None]:
    """Make `config` this process's configuration while the block runs."""
    global _current, _given
    before = _current, _given
    set_global_config_dict(config)
    try:
        yield
    finally:
        _current, _given = before


def allows_unsandboxed() -> bool:
    """Return whether the user of this gym lets code of models run without isolation."""
    return bool(read_run_value(names.ALLOW_UNSANDBOXED))


def is_global_aiohttp_client_request_debug_enabled() -> bool:
    """Return whether agents should log the whole answers of services that refuse their requests."""
    return bool(read_run_value(REQUEST_DEBUG_KEY_NAME))


def read_run_token() -> str | None:
    """Return the token of this process's run, or of the run that this process started; None if there is none."""
    from nemo_gym.config import bootstrap

    given = bootstrap.current()
    token = given.run_token if given is not None else read_run_value(names.RUN_TOKEN)
    return str(token) if token else None


def read_run_value(key: str) -> Any:
    """Return a top-level value of this process's configuration if it was read, without making a `DictConfig` of it."""
    plain = _given if _given is not None else _read_server_config()
    config = plain if plain is not None else _current
    return config.get(key) if config is not None else None


def get_first_server_config_dict(global_config_dict: Any, top_level_path: str) -> Any:
    """Return the innermost block of the server instance `top_level_path`."""
    if top_level_path not in global_config_dict:
        names = [str(key) for key in global_config_dict]
        raise ConfigError(
            f"There is no server {top_level_path!r} in the configuration.",
            code="unknown_server",
            remedy=did_you_mean(top_level_path, names),
        )
    block = global_config_dict[top_level_path]
    for _ in range(2):
        block = next(iter(block.values()))
    return block


def get_hf_token() -> str | None:
    """Return the configured Hugging Face token."""
    token = get_global_config_dict().get(HF_TOKEN_KEY_NAME)
    return str(token) if token else None


def __getattr__(name: str) -> Any:
    """Import the classes of `omegaconf` when they are used, which few environments do."""
    if name not in ("DictConfig", "OmegaConf"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import omegaconf

    return getattr(omegaconf, name)


def to_dict_config(plain: Mapping[str, Any]) -> DictConfig:
    """Return resolved plain data as a `DictConfig`. A `${` in the data is kept as text."""
    from omegaconf import DictConfig

    return DictConfig(_escape(plain))


def plain_dict(config: Any) -> dict[str, Any]:
    """Return a mapping or `DictConfig` as plain dicts and lists, with interpolations as text."""
    from omegaconf import DictConfig, OmegaConf

    if isinstance(config, DictConfig):
        config = OmegaConf.to_container(config, resolve=False)
    return {str(key): value for key, value in config.items()}


def _escape(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _escape(below) for key, below in value.items()}
    if isinstance(value, list | tuple):
        return [_escape(item) for item in value]
    return value.replace("${", r"\${") if isinstance(value, str) else value


def _list_program_overrides() -> list[str]:
    return [argument for argument in sys.argv[1:] if _OVERRIDE.fullmatch(argument)]


def _read_server_config() -> Mapping[str, Any] | None:
    from nemo_gym.config import bootstrap

    current = bootstrap.current()
    return current.global_config if current is not None else None
