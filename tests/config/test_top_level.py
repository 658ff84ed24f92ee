from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from nemo_gym.config.loading import load
from nemo_gym.config.problems import ConfigErrors
from tests.config.small_gym import POLICY, load_in, load_text, only, problems_in, problems_of, write_gym


def test_defaults_are_filled_in(tmp_path: Path) -> None:
    assert load_in(tmp_path).data == {
        "default_host": "127.0.0.1",
        "head_server": {"host": "127.0.0.1", "port": 11000},
        "error_on_almost_servers": True,
        "dry_run": False,
        "use_absolute_ip": False,
    }


def test_the_head_server_is_filled_in_key_by_key(tmp_path: Path) -> None:
    config = load_in(tmp_path, "+default_host=127.0.0.2", "+head_server.port=1234")
    assert config.data["head_server"] == {"host": "127.0.0.2", "port": 1234}


@pytest.mark.parametrize(
    ("override", "message", "remedy"),
    [
        ("+head_server.prot=1", "There is no key 'head_server.prot'.", "Did you mean 'port'?"),
        (
            "+head_server.port=x",
            "head_server.port must be a whole number, not 'x'.",
            "Write a number, such as 3.",
        ),
        (
            "+dry_run=perhaps",
            "dry_run must be true or false, not 'perhaps'.",
            "Write true or false.",
        ),
        (
            "+policy_model_name=4",
            "policy_model_name must be text, not 4.",
            "Quote it to make it text: '\"4\"'.",
        ),
        ("+policy_base_url={a: 1}", "policy_base_url must be text or a list.", ""),
        (
            "+disallowed_ports=[1,x]",
            "disallowed_ports[1] must be a whole number, not 'x'.",
            "Write a number, such as 3.",
        ),
    ],
)
def test_a_global_key_of_the_wrong_type_is_an_error(
    tmp_path: Path, override: str, message: str, remedy: str
) -> None:
    assert only(problems_in(tmp_path, override)) == (f"command line: {override}", message, remedy)


def test_a_wrong_global_key_does_not_hide_problems_of_others(tmp_path: Path) -> None:
    problems = problems_in(tmp_path, "+dry_run=perhaps", "+default_host=0.0.0.0")
    assert [str(each.where) for each in problems] == [
        "command line: +dry_run=perhaps",
        "command line: +default_host=0.0.0.0",
    ]


def test_a_wrong_secret_is_not_shown(tmp_path: Path) -> None:
    assert "canary" not in str(problems_in(tmp_path, "+hf_token={a: canary}", "+policy_api_key=[canary]"))


def test_a_key_that_nothing_reads_is_an_error_with_the_nearest_known_one(tmp_path: Path) -> None:
    assert only(problems_of(tmp_path, "# a typo\ndefualt_host: 127.0.0.1\n")) == (
        "main.yaml:2:1",
        "The key 'defualt_host' is not used.",
        "Did you mean 'default_host'?",
    )


@pytest.mark.parametrize(
    "text",
    [
        "speed: 3\nshared: {a: '${speed}'}\n",
        "speed: 3\nshared: {a: 'x ${speed} y'}\n",
        "speed: 3\nshared: {a: '${oc.select:speed,1}'}\n",
        "speed: 3\nheir: {a: '${copy:speed}'}\n",
        "provider: fast\nshared: {use: provider}\n",
    ],
)
def test_a_key_that_something_names_is_read(tmp_path: Path, text: str) -> None:
    assert load_text(tmp_path, text).data


def test_keys_of_env_yaml_are_free(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("for_another_command: 1\n")
    assert load_in(tmp_path).data["for_another_command"] == 1


def test_unread_mappings_and_lists_are_warned_of(tmp_path: Path) -> None:
    config = load_text(tmp_path, "shared_part: {a: 1}\nitems: [1]\n")
    assert [warning.split(":")[1] for warning in config.warnings] == ["1", "2"]
    assert config.warnings[0] == "main.yaml:1:1: The key 'shared_part' is not used."


def test_unread_keys_of_an_embedding_program_are_warned_of(tmp_path: Path) -> None:
    assert load_in(tmp_path, initial={"trainer_key": 1}).warnings == [
        "initial configuration: The key 'trainer_key' is not used."
    ]


class CommandKeys(BaseModel):
    limit: int = Field(1, description="How many.")
    as_json: bool = Field(False, alias="json", description="JSON.")


def test_keys_of_the_command_are_validated_and_leave_the_data(tmp_path: Path) -> None:
    config = load(["+limit=3", "--json"], command_keys=CommandKeys, working_directory=tmp_path)
    assert isinstance(config.command_keys, CommandKeys)
    assert (config.command_keys.limit, config.command_keys.as_json) == (3, True)
    assert not {"limit", "json"} & set(config.data)


def test_a_wrong_key_of_the_command_is_reported_with_everything_else(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as raised:
        load(["+limit=x", "+limti=3", "+dry_run=y3s"], command_keys=CommandKeys, working_directory=tmp_path)
    assert [problem.message.split(" ")[0] for problem in raised.value.problems] == [
        "dry_run",
        "limit",
        "The",
    ]
    assert raised.value.problems[2].remedy == "Did you mean 'limit'?"


def test_keys_of_other_commands_are_passed_over(tmp_path: Path) -> None:
    config = load(["+limit=x"], other_keys=[CommandKeys], working_directory=tmp_path)
    assert "limit" not in config.data


def test_verification_is_skipped_by_every_agent_that_does_not_say_otherwise(tmp_path: Path) -> None:
    write_gym(tmp_path)
    line = (
        "+config_paths=[weather.yaml,model.yaml]",
        *POLICY,
        "+skip_verification=true",
        "+skip_verification_reward=0.5",
    )
    agent = load_in(tmp_path, *line).servers[1].config
    assert (agent["skip_verification"], agent["skip_verification_reward"]) == (True, 0.5)
    path = "weather_agent.responses_api_agents.small_agent.skip_verification"
    assert load_in(tmp_path, *line, f"+{path}=false").servers[1].config["skip_verification"] is False


@pytest.mark.parametrize(
    ("key", "value"),
    [("allow_unsandboxed", "true"), ("open_network", "true"), ("allowed_hosts", "[gym.example]")],
)
@pytest.mark.parametrize("place", ["weather.yaml", "included.yaml"])
def test_a_configuration_file_cannot_accept_a_risk(tmp_path: Path, place: str, key: str, value: str) -> None:
    folder = write_gym(tmp_path)
    with (folder / "weather.yaml").open("a") as file:
        file.write("config_paths: [included.yaml]\n")
    (folder / "included.yaml").touch()
    with (folder / place).open("a") as file:
        file.write(f"{key}: {value}\n")
    arguments = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
    with pytest.raises(ConfigErrors, match=f"A configuration file may not set '{key}'") as caught:
        load(arguments, working_directory=folder)
    assert place in str(caught.value)
    assert load([*arguments, f"++{key}={value}"], working_directory=folder).data[key]


def test_the_command_line_and_env_yaml_can_allow_code_without_isolation(tmp_path: Path) -> None:
    assert load_in(tmp_path, "+allow_unsandboxed=true").data["allow_unsandboxed"] is True
    (tmp_path / "env.yaml").write_text("allow_unsandboxed: true\n")
    assert load_in(tmp_path).data["allow_unsandboxed"] is True


STAGING = "{enabled: true, external_staging: true, external_staging_backend: vllm_worker}"


@pytest.mark.parametrize("given", ["command line", "file", "trainer"])
def test_tokens_that_are_staged_outside_of_the_gym_are_refused(tmp_path: Path, given: str) -> None:
    loads = {
        "command line": lambda: load_in(tmp_path, f"+token_id_capture={STAGING}"),
        "file": lambda: load_text(tmp_path, f"token_id_capture: {STAGING}\n"),
        "trainer": lambda: load_in(tmp_path, initial={"token_id_capture": {"external_staging": True}}),
    }
    with pytest.raises(ConfigErrors) as raised:
        loads[given]()
    problem = raised.value.problems[0]
    assert problem.message == "token_id_capture.external_staging is not supported."
    assert "Turn token_capture off in the trainer" in str(problem.remedy)


def test_a_block_without_staging_is_no_error(tmp_path: Path) -> None:
    assert load_text(tmp_path, "token_id_capture: {enabled: true}\n").warnings
