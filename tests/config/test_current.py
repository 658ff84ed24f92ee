from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from nemo_gym import cli
from nemo_gym.config import bootstrap
from nemo_gym.config.current import configured, is_global_aiohttp_client_request_debug_enabled
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.global_config import (
    GlobalConfigDictParser,
    GlobalConfigDictParserConfig,
    find_open_port,
    get_first_server_config_dict,
    get_global_config_dict,
    get_hf_token,
    maybe_get_global_config_dict,
    set_global_config_dict,
    to_dict_config,
)
from tests.config.small_gym import write_gym


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    set_global_config_dict(None)
    yield
    set_global_config_dict(None)
    bootstrap.set_current(None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_gym(tmp_path))
    return tmp_path


def embedded(**keys: object) -> GlobalConfigDictParserConfig:
    return GlobalConfigDictParserConfig(
        dotenv_path=Path("absent.yaml"),
        initial_global_config_dict=DictConfig(keys),
        skip_load_from_cli=True,
    )


def test_a_trainer_embeds_the_gym_with_an_initial_configuration(folder: Path) -> None:
    config = GlobalConfigDictParser().parse(
        embedded(
            config_paths=["model.yaml", "weather.yaml"],
            policy_base_url=["http://10.0.0.1:8000/v1", "http://10.0.0.2:8000/v1"],
            policy_api_key="k",
            policy_model_name="m",
            default_host="10.0.0.9",
            port_range_low=15000,
            port_range_high=20000,
            global_aiohttp_connector_limit=1000,
            ray_head_node_address="10.0.0.9:6379",
        )
    )
    assert isinstance(config, DictConfig)
    assert config.policy_model.responses_api_models.small_model.base_url == [
        "http://10.0.0.1:8000/v1",
        "http://10.0.0.2:8000/v1",
    ]
    assert config.head_server == {"host": "10.0.0.9", "port": 11000}
    agent = get_first_server_config_dict(config, "weather_agent")
    assert (agent.host, agent.port) == ("10.0.0.9", 0), "its block is a valid config of the agent's class"
    assert len(config.run_token) >= 16


def test_the_configuration_is_read_once(folder: Path) -> None:
    first = get_global_config_dict(embedded(hf_token="one"))
    assert get_global_config_dict(embedded(hf_token="two")) is first
    assert get_hf_token() == "one"


def test_the_configuration_is_read_from_the_programs_own_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["prepare.py", "+hf_token=mine"])
    assert maybe_get_global_config_dict() is None
    assert get_global_config_dict().hf_token == "mine"


def test_flags_of_the_program_are_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ["-q", "-p", "no:cacheprovider", "--tb=line", "--lr", "3", "tests/test_x.py::test[a=1]"]
    monkeypatch.setattr("sys.argv", ["pytest", *flags, "+hf_token=mine"])
    assert get_global_config_dict().hf_token == "mine"


def test_a_program_may_have_keys_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["client.py", "+rows={path: rows.jsonl}", "++rows.limit=3", "level=high"])
    config = get_global_config_dict()
    assert config.rows == {"path": "rows.jsonl", "limit": 3}
    assert config.level == "high"


def test_a_wrong_override_of_a_program_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["client.py", "+config_paths=[no.yaml]"])
    with pytest.raises(ConfigErrors, match=r"no\.yaml"):
        get_global_config_dict()


def test_env_yaml_is_read_by_default(folder: Path) -> None:
    (folder / "env.yaml").write_text("hf_token: of-env\n")
    parser = GlobalConfigDictParser()
    assert parser.parse(GlobalConfigDictParserConfig(skip_load_from_cli=True)).hf_token == "of-env"
    assert "hf_token" not in parser.parse_no_environment({"default_host": "127.0.0.1"})


def test_a_server_uses_the_configuration_of_its_launcher() -> None:
    bootstrap.set_current(
        bootstrap.Bootstrap(
            "me", {"me": 1, "text": "${not} interpolated"}, run_token="t", cookie_key="c", listen_fds=[]
        )
    )
    found = maybe_get_global_config_dict()
    assert found is not None
    assert OmegaConf.to_container(found, resolve=True) == {"me": 1, "text": "${not} interpolated"}


def test_problems_are_raised_as_config_errors(folder: Path) -> None:
    with pytest.raises(ConfigErrors, match=r"no\.yaml"):
        GlobalConfigDictParser().parse(embedded(config_paths=["no.yaml"]))


def test_secrets_can_be_left_out(folder: Path) -> None:
    given = embedded(hf_token="canary")
    hidden = GlobalConfigDictParserConfig(**{**dict(given), "hide_secrets": True})
    assert GlobalConfigDictParser().parse(hidden).hf_token == "****"


def test_data_is_read_without_a_model(folder: Path) -> None:
    parser_config = GlobalConfigDictParserConfig(
        initial_global_config_dict=OmegaConf.merge(
            GlobalConfigDictParserConfig.NO_MODEL_GLOBAL_CONFIG_DICT, {"config_paths": ["weather.yaml"]}
        ),
        skip_load_from_cli=True,
    )
    config = GlobalConfigDictParser().parse(parser_config)
    assert get_first_server_config_dict(config, "weather_agent").max_steps == 3
    assert get_first_server_config_dict(config, "policy_model") == {"entrypoint": "app.py"}


def test_an_unknown_server_is_an_error_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as raised:
        get_first_server_config_dict(to_dict_config({"weather": {}}), "wether")
    assert raised.value.failure.remedy == "Did you mean 'weather'?"


def test_an_open_port_is_within_the_configured_range() -> None:
    set_global_config_dict({"port_range_low": 23000, "port_range_high": 23010, "disallowed_ports": [23000]})
    assert find_open_port([23001]) in range(23002, 23011)


def test_classes_for_embedding_are_importable_from_the_package_of_commands() -> None:
    assert cli.GlobalConfigDictParserConfig is GlobalConfigDictParserConfig
    assert cli.RunHelper.__name__ == "RunHelper"
    with pytest.raises(AttributeError):
        _ = cli.nothing_of_the_kind


def test_agents_can_ask_whether_to_log_whole_answers() -> None:
    assert not is_global_aiohttp_client_request_debug_enabled()
    set_global_config_dict({"global_aiohttp_client_request_debug": True})
    try:
        assert is_global_aiohttp_client_request_debug_enabled()
    finally:
        set_global_config_dict(None)


def test_a_block_has_a_configuration_of_its_own() -> None:
    set_global_config_dict({"name": "outer"})
    with configured({"name": "inner"}):
        assert get_global_config_dict()["name"] == "inner"
    assert get_global_config_dict()["name"] == "outer"
