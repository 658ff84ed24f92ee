from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.servers import find_root
from nemo_gym.config_types import SERVER_KINDS
from tests.config.small_gym import POLICY, load_in, load_text, only, problems_of, write_gym

BLOCK = "weather:\n  resources_servers:\n    weather:\n      entrypoint: app.py\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gym(tmp_path)


def test_a_server_is_described_in_full(folder: Path) -> None:
    config = load_text(folder, f"{BLOCK}      num_workers: 3\n      cities: 7\n")
    (server,) = config.servers
    assert (server.name, server.kind, server.implementation) == ("weather", "resources_servers", "weather")
    assert (server.directory, server.entrypoint) == (folder / "resources_servers" / "weather", "app.py")
    assert (server.num_workers, str(server.where)) == (3, "main.yaml:3:5")
    assert server.config == {"entrypoint": "app.py", "num_workers": 3, "cities": 7}
    assert server.config is config.data["weather"]["resources_servers"]["weather"]


def test_the_secrets_of_a_server_are_not_in_its_representation(folder: Path) -> None:
    config = load_in(folder, "+config_paths=[model.yaml]", *POLICY)
    assert "sk-canary" not in repr(config)
    assert "sk-canary" not in repr(config.servers)


def test_implementations_beside_the_package_are_found_too(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        "a:\n  responses_api_agents:\n    simple_agent: {entrypoint: app.py, max_steps: 1, "
        "resources_server: {type: resources_servers, name: r}, model_server: {type: responses_api_models, name: m}}\n"
        "r:\n  resources_servers:\n    mcqa: {entrypoint: app.py}\n"
        "m:\n  responses_api_models:\n    replay_model: {entrypoint: app.py, recordings: [x]}\n",
    )
    assert len(config.servers) == 3


@pytest.mark.parametrize(
    ("text", "place", "message", "remedy"),
    [
        (
            "weather:\n  resource_servers:\n    weather: {entrypoint: app.py}\n",
            "main.yaml:2:3",
            "weather.resource_servers is not a kind of server.",
            "Did you mean 'resources_servers'?",
        ),
        (
            "weather:\n  worlds:\n    weather: {entrypoint: app.py}\n",
            "main.yaml:2:3",
            "weather.worlds is not a kind of server.",
            f"A server's kind is one of {', '.join(SERVER_KINDS)}.",
        ),
        (
            "weather:\n  resources_servers:\n    weather: {entrypont: app.py}\n",
            "main.yaml:3:5",
            "weather.resources_servers.weather has no `entrypoint`.",
            "Did you mean `entrypoint` by 'entrypont'?",
        ),
        (
            "weather:\n  resources_servers:\n    weather: {}\n",
            "main.yaml:3:5",
            "weather.resources_servers.weather has no `entrypoint`.",
            "Write `entrypoint: app.py`.",
        ),
        (
            "weather:\n  resources_servers:\n    weather:\n",
            "main.yaml:3:5",
            "weather.resources_servers.weather is not a mapping.",
            "Add at least an `entrypoint`.",
        ),
        (
            "weather:\n  resources_servers:\n    weather: {entrypoint: 3}\n",
            "main.yaml:3:15",
            "weather.resources_servers.weather.entrypoint is not the name of a file.",
            "Write `entrypoint: app.py`.",
        ),
        (
            "weather:\n  resources_servers: {}\n",
            "main.yaml:2:3",
            "weather.resources_servers has no implementation folder.",
            "",
        ),
        (
            f"{BLOCK}    other: {{entrypoint: app.py}}\n",
            "main.yaml:5:5",
            "weather has 2 implementations: weather, other.",
            "Keep one, or remove one with `_delete_key: weather`.",
        ),
        (
            f"{BLOCK}  responses_api_agents:\n    small_agent: {{entrypoint: app.py}}\n",
            "main.yaml:1:1",
            "weather has 2 kinds: resources_servers, responses_api_agents.",
            "A server has one kind.",
        ),
        (
            f"{BLOCK}  num_workers: 2\n",
            "main.yaml:5:3",
            "weather.num_workers has no meaning beside resources_servers.",
            "Move it into weather.resources_servers.weather.",
        ),
        (
            "weather:\n  resources_servers:\n    weather: {entrypoint: ap.py}\n",
            "main.yaml:3:15",
            "There is no ap.py in {folder}/resources_servers/weather.",
            "Did you mean 'app.py'?",
        ),
    ],
)
def test_a_block_that_is_almost_a_server_is_an_error(
    folder: Path, text: str, place: str, message: str, remedy: str
) -> None:
    assert only(problems_of(folder, text)) == (place, message.replace("{folder}", str(folder)), remedy)


def test_a_missing_folder_is_named_with_its_nearest_neighbour(folder: Path) -> None:
    where, message, remedy = only(problems_of(folder, BLOCK.replace("    weather:", "    wether:")))
    assert (where, message) == ("main.yaml:3:5", "There is no folder resources_servers/wether.")
    assert remedy.startswith(f"Did you mean 'weather'? Looked in {folder}/resources_servers and ")


def test_almost_servers_may_be_left_out_with_a_warning(folder: Path) -> None:
    config = load_text(
        folder,
        f"{BLOCK}other:\n  resource_servers:\n    weather: {{entrypoint: app.py}}\n",
        "+error_on_almost_servers=false",
    )
    assert [server.name for server in config.servers] == ["weather"]
    assert config.warnings == [
        "main.yaml:6:3: other.resource_servers is not a kind of server. It is not started."
    ]


def test_a_fragment_for_other_files_is_a_warning(folder: Path) -> None:
    config = load_text(folder, f"{BLOCK}other:\n  resources_servers:\n    weather: {{cities: 3}}\n")
    assert [server.name for server in config.servers] == ["weather"]
    assert config.warnings == [
        "main.yaml:7:5: other.resources_servers.weather has no `entrypoint`. It is not started."
    ]


def test_an_override_of_a_mistyped_server_is_an_error_that_names_the_one_meant(folder: Path) -> None:
    override = "+wether.resources_servers.weather.cities=3"
    assert only(problems_of(folder, BLOCK, override)) == (
        f"command line: {override}",
        "There is no server 'wether'.",
        "Did you mean 'weather'?",
    )


def test_a_server_that_is_only_referred_to_is_an_error(folder: Path) -> None:
    assert only(problems_of(folder, f"{BLOCK}twin: ${{weather}}\n")) == (
        "main.yaml:5:1",
        "twin is an interpolation of another server, and has no block of its own.",
        "To copy that server, write `_copy: <its name>`.",
    )


def test_other_mappings_are_no_servers(folder: Path) -> None:
    config = load_text(folder, "sandbox: {resources: {cpu: 1}, provider: {name: x}}\n")
    assert not config.servers


def test_a_placeholder_model_is_not_started_and_gives_way_to_a_real_one(folder: Path) -> None:
    placeholder = {"policy_model": {"responses_api_models": {"dummy_model": {"entrypoint": "app.py"}}}}
    alone = load_in(folder, "+config_paths=[weather.yaml]", initial=placeholder)
    assert [server.name for server in alone.servers] == ["weather", "weather_agent"]
    both = load_in(folder, "+config_paths=[model.yaml]", *POLICY, initial=placeholder)
    assert [server.implementation for server in both.servers] == ["small_model"]
    assert list(both.data["policy_model"]["responses_api_models"]) == ["small_model"]


def test_an_implementation_is_exchanged_by_deleting_the_old_one(folder: Path) -> None:
    (folder / "responses_api_models" / "other_model").mkdir()
    (folder / "responses_api_models" / "other_model" / "app.py").write_text("")
    models = "    _delete_key: small_model\n    other_model: {entrypoint: app.py}\n"
    text = f"config_paths: [model.yaml]\npolicy_model:\n  responses_api_models:\n{models}"
    assert [server.implementation for server in load_text(folder, text).servers] == ["other_model"]


def test_an_unknown_domain_is_an_error(folder: Path) -> None:
    where, message, remedy = only(problems_of(folder, f"{BLOCK}      domain: mathe\n"))
    assert where == "main.yaml:5:7"
    assert message.startswith("weather.resources_servers.weather.domain must be 'math', 'coding', ")
    assert message.endswith(" or 'other', not 'mathe'.")
    assert remedy == "Did you mean 'math'?"


ALIAS = """\
weather_environment_server:
  environment_servers:
    legacy_agent:
      entrypoint: app.py
      max_concurrent_episodes: 4
      agent_server: {type: responses_api_agents, name: %s}
"""


def test_an_environment_server_that_only_forwards_is_a_name_without_a_process(folder: Path) -> None:
    paths = "+config_paths=[weather.yaml,model.yaml,alias.yaml]"
    (folder / "alias.yaml").write_text(ALIAS % "weather_agent")
    config = load_in(folder, paths, *POLICY)
    assert {server.name for server in config.servers} == {"weather", "weather_agent", "policy_model"}
    assert "weather_environment_server" in config.data


def test_its_agent_has_to_exist(folder: Path) -> None:
    problems = problems_of(folder, ALIAS % "whether_agent")
    assert "there is no server 'whether_agent'" in only(problems)[1]


def test_an_alias_without_an_agent_is_an_error(folder: Path) -> None:
    text = "w:\n  environment_servers:\n    legacy_agent: {entrypoint: app.py}\n"
    assert (
        only(problems_of(folder, text))[1] == "w.environment_servers.legacy_agent.agent_server is required."
    )


def test_an_environment_server_with_code_of_its_own_is_started(folder: Path) -> None:
    (folder / "environment_servers" / "duel").mkdir(parents=True)
    (folder / "environment_servers" / "duel" / "app.py").touch()
    (server,) = load_text(folder, "duel:\n  environment_servers:\n    duel: {entrypoint: app.py}\n").servers
    assert (server.kind, server.directory) == ("environment_servers", folder / "environment_servers" / "duel")


def test_the_root_of_an_implementation_is_above_its_kind_of_server(tmp_path: Path) -> None:
    assert find_root(tmp_path / "resources_servers" / "math") == tmp_path
    assert find_root(tmp_path / "responses_api_agents" / "group" / "one") == tmp_path
