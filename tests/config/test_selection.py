"""Names on a command line, and the configuration that they select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.loading import GlobalConfig, load
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.config.selection import NamedConfig, SelectedConfig, select
from tests.config.roots import SERVER, write_root

POLICY = ("++policy_base_url=http://127.0.0.1:1/v1", "++policy_model_name=m")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", "")
    return tmp_path


def selected(here: Path, *overrides: str, needs_model: bool = True, **names: Any) -> SelectedConfig:
    return select(NamedConfig(**names), overrides, here, needs_model=needs_model)


def loaded(here: Path, **names: Any) -> GlobalConfig:
    return load(selected(here, *POLICY, **names).overrides, working_directory=here)


def implementations(config: GlobalConfig) -> dict[str, str]:
    return {server.name: server.implementation for server in config.servers}


def test_a_name_selects_an_environment_and_the_default_model_server(here: Path) -> None:
    config = loaded(here, targets=["mcqa"])
    assert implementations(config) == {
        "mcqa": "mcqa",
        "mcqa_simple_agent": "simple_agent",
        "policy_model": "vllm_model",
    }
    assert config.data["policy_api_key"] == "none"


def test_a_key_and_a_model_server_that_are_given_stay(here: Path) -> None:
    (here / "env.yaml").write_text("policy_api_key: sk-given\n")
    config = loaded(here, targets=["mcqa"], model_type="openai_model")
    assert implementations(config)["policy_model"] == "openai_model"
    assert config.data["policy_api_key"] == "sk-given"


def test_a_configuration_with_a_policy_gets_no_other(here: Path) -> None:
    config = load(selected(here, targets=["configs/demo.yaml"]).overrides, working_directory=here)
    assert implementations(config)["policy_model"] == "scripted_model"


def test_an_environment_without_an_agent_gets_the_default_one(here: Path) -> None:
    config = loaded(here, resources_servers=["mcqa/resources_only"])
    assert implementations(config)["mcqa_simple_agent"] == "simple_agent"


def test_another_agent_takes_the_place_and_the_datasets_of_the_environment_s_own(here: Path) -> None:
    config = loaded(here, targets=["mcqa"], agent_type="tool_simulation_agent")
    assert implementations(config)["mcqa_simple_agent"] == "tool_simulation_agent"
    assert [each.server.name for each in config.datasets] == ["mcqa_simple_agent"]


def read_agent(config: GlobalConfig) -> tuple[str, Any]:
    ((implementation, options),) = config.data["mcqa_simple_agent"]["responses_api_agents"].items()
    return implementation, options


@pytest.mark.parametrize(
    ("selection", "implementation"),
    [
        ({"targets": ["mcqa"], "agent_type": "tool_simulation_agent"}, "tool_simulation_agent"),
        ({"targets": ["mcqa"], "agent_type": "simple_agent"}, "simple_agent"),
        ({"targets": ["mcqa"]}, "simple_agent"),
        ({"resources_servers": ["mcqa/resources_only"]}, "simple_agent"),
    ],
    ids=["another agent", "the same", "its own", "an added one"],
)
def test_options_of_the_agent_are_set_on_the_command_line(
    here: Path, selection: dict[str, Any], implementation: str
) -> None:
    option = f"++mcqa_simple_agent.responses_api_agents.{implementation}.on_truncation=zero"
    found, options = read_agent(
        load(selected(here, *POLICY, option, **selection).overrides, working_directory=here)
    )
    assert (found, options["on_truncation"], options["resources_server"]["name"]) == (
        implementation,
        "zero",
        "mcqa",
    )


def test_an_inherited_agent_is_replaced_too(here: Path) -> None:
    mcqa = "resources_servers/mcqa/configs/mcqa.yaml"
    (here / "gym.yaml").write_text(
        f"config_paths: [{mcqa}]\nmine:\n  _inherit_from: mcqa\nmy_agent:\n  _inherit_from: mcqa_simple_agent\n"
        "  responses_api_agents:\n    simple_agent:\n      resources_server: {name: mine}\n"
    )
    config = loaded(here, configs=["gym.yaml"], agent_type="tool_simulation_agent")
    assert implementations(config) == {
        "mine": "mcqa",
        "my_agent": "tool_simulation_agent",
        "policy_model": "vllm_model",
    }


def test_an_environment_hides_the_resources_server_of_its_name(here: Path) -> None:
    write_root(here, "environments/mcqa", "benchmarks/gpqa")
    assert (
        selected(here, targets=["mcqa"])
        .overrides[0]
        .startswith('++config_paths=["environments/mcqa/config.yaml"')
    )
    assert (
        selected(here, environments=["math_with_judge"])
        .overrides[0]
        .startswith('++config_paths=["resources_servers/math_with_judge/')
    )
    chosen = selected(here, targets=["gpqa"])
    assert (chosen.is_benchmark, chosen.name) == (True, "gpqa")


def test_every_wrong_name_is_reported_at_once(here: Path) -> None:
    write_root(here, "benchmarks/mcqa")
    with pytest.raises(ConfigErrors) as caught:
        selected(here, targets=["mcqa"], environments=["mcqb"], model_type="vllm_modle", agent_type="agent")
    assert [each.message for each in caught.value.problems] == [
        "'mcqa' is a benchmark and a resources server.",
        "There is no environment 'mcqb'.",
        "There is no model 'vllm_modle'.",
        "There is no agent 'agent'.",
    ]
    assert caught.value.problems[0].remedy == "Write --benchmark mcqa or --resources-server mcqa."


def test_an_agent_cannot_take_two_places(here: Path) -> None:
    with pytest.raises(
        ConfigErrors, match="The configuration has: mcqa_simple_agent, blackjack_gymnasium_agent"
    ):
        selected(here, targets=["mcqa", "blackjack"], agent_type="simple_agent")


def test_a_folder_elsewhere_becomes_a_root(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    far = tmp_path_factory.mktemp("far")
    (far / "resources_servers" / "mine" / "configs").mkdir(parents=True)
    (far / "resources_servers" / "mine" / "app.py").touch()
    (far / "resources_servers" / "mine" / "configs" / "mine.yaml").write_text(SERVER.format(name="mine"))
    config = loaded(here, targets=[str(far / "resources_servers" / "mine")])
    assert implementations(config)["mine"] == "mine"


def test_without_a_need_no_model_is_added(here: Path) -> None:
    assert selected(here, targets=["mcqa"], needs_model=False).overrides == [
        '++config_paths=["resources_servers/mcqa/configs/mcqa.yaml"]'
    ]
