from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

from nemo_gym import PARENT_DIR
from nemo_gym.cli.command import Keys
from nemo_gym.config.loading import load, load_keys
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.launch.inspection import inspector
from tests.config.small_gym import POLICY, WEATHER, load_in, problems_in, write_gym

EVERYTHING_WRONG = """\
config_paths: [model.yaml, weather.yaml]
weather_agent:
  responses_api_agents:
    small_agent:
      model_server: {name: policy_modle}
      max_stepz: 3
      datasets:
      - {name: d, type: exmaple, jsonl_fpath: rows.jsonl}
twice:
  resource_servers:
    weather: {entrypoint: app.py}
needed: ???
user: ${needed}
circle: {_copy: circle}
heir: {_copy: sorce}
trimmed: {_delete_key: nothing}
from_env: ${oc.env:GYM_TEST_ABSENT}
malformed: '${'
head_server: {prot: 1}
default_host: 0.0.0.0
defualt_host: 127.0.0.1
doubled: {a: 1, a: 2}
"""


def test_everything_that_is_wrong_is_reported_at_once_with_its_place(tmp_path: Path) -> None:
    write_gym(tmp_path, main=EVERYTHING_WRONG)
    overrides = (
        "+policy_api_key=k",
        "+policy_base_url=http://x",
        "policy_modle_name=m",
        "~nothing",
        "+agent_x=1",
    )
    with inspector() as inspect:
        problems = problems_in(tmp_path, "+config_paths=[main.yaml]", *overrides, inspect=inspect)
    places = [str(problem.where) for problem in problems]
    assert sorted(places) == sorted(
        [
            "main.yaml:22:17",  # the duplicate key
            "command line: policy_modle_name=m",
            "command line: ~nothing",
            "main.yaml:14:10",  # the cycle
            "main.yaml:15:8",  # the missing source
            "main.yaml:16:11",  # the deletion without effect
            "main.yaml:12:1",  # ???
            "main.yaml:18:1",  # the malformed interpolation
            "main.yaml:17:1",  # the environment variable
            "model.yaml:7:7",  # policy_model_name
            "main.yaml:19:15",  # head_server.prot
            "main.yaml:10:3",  # resource_servers
            "main.yaml:5:22",  # policy_modle
            "main.yaml:6:7",  # max_stepz
            "main.yaml:8:19",  # exmaple
            "main.yaml:20:1",  # the open address
            "main.yaml:21:1",  # defualt_host
            "main.yaml:13:1",  # user, which is not used
            "main.yaml:17:1",  # from_env, which is not used
            "main.yaml:18:1",  # malformed, which is not used
            "command line: +agent_x=1",
        ]
    )


def test_a_named_env_file_must_exist_and_none_reads_no_file(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("hf_token: of-env\n")
    assert "hf_token" not in load([], env_path=None, working_directory=tmp_path).data
    with pytest.raises(ConfigErrors, match=r"other\.yaml: The file cannot be read"):
        load([], env_path=tmp_path / "other.yaml", working_directory=tmp_path)


def test_a_token_is_made_for_a_program_that_embeds_the_gym(tmp_path: Path) -> None:
    config = load([], initial={"default_host": "10.0.0.1"}, makes_token=True, working_directory=tmp_path)
    assert len(config.data["run_token"]) >= 16
    given = load(["+run_token=0123456789abcdef"], makes_token=True, working_directory=tmp_path)
    assert given.data["run_token"] == "0123456789abcdef"


def test_loading_does_not_change_its_arguments(tmp_path: Path) -> None:
    initial = {"head_server": {"port": 1}, "list": [1]}
    load([], initial=initial, working_directory=tmp_path)
    assert initial == {"head_server": {"port": 1}, "list": [1]}


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import nemo_gym.config_types", ("omegaconf", "hydra", "yaml", "nemo_gym.config.loading")),
        ("import nemo_gym.global_config", ("omegaconf", "hydra", "yaml")),
        ("import nemo_gym.config.secrets", ("omegaconf", "hydra", "yaml")),
        ("import nemo_gym.config.loading", ("omegaconf", "hydra")),
        ("from nemo_gym.config.loading import load; load([], env_path=None)", ("omegaconf", "hydra")),
        ("from nemo_gym.cli.command import *; COMMAND.help()", ("omegaconf", "hydra", "yaml")),
    ],
)
def test_common_imports_stay_light(tmp_path: Path, statement: str, unwanted: tuple[str, ...]) -> None:
    statement = statement.replace(
        "from nemo_gym.cli.command import *", "from nemo_gym.cli.version import COMMAND"
    )
    check = f"import sys; {statement}; print(sorted(set(sys.modules) & {set(unwanted)!r}))"
    environment = {**os.environ, "PYTHONPATH": str(PARENT_DIR)}
    done = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert done.stdout.strip() == "[]"


class CollectKeys(Keys):
    output: str = Field(description="Where to.")
    limit: int = Field(10, description="How many.")
    params: dict[str, float] = Field(default_factory=dict, description="Laid over every row.")
    as_json: bool = Field(False, alias="json", description="JSON.")


def test_keys_of_a_command_come_from_the_line_and_from_env_yaml(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(
        "limit: 3\noutput: ${folder}/x\nfolder: f\nother: ???\nbroken: ${nothing}\n"
    )
    keys = load_keys(
        ["++limit=5", "+params.temperature=0.5", "--json"], CollectKeys, working_directory=tmp_path
    )
    assert keys == CollectKeys(output="f/x", limit=5, params={"temperature": 0.5}, as_json=True)


def test_wrong_keys_of_a_command_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("policy_api_key: k\n")
    with pytest.raises(ConfigErrors) as raised:
        load_keys(
            ["+limt=5", "+params.t=x", "+policy_api_key=canary"], CollectKeys, working_directory=tmp_path
        )
    assert sorted((str(p.where), p.message, p.remedy) for p in raised.value.problems) == [
        ("None", "output is required.", "Write +output=<value>."),
        ("command line: +limt=5", "There is no key 'limt'.", "Did you mean 'limit'?"),
        (
            "command line: +params.t=x",
            "params.t must be a number, not 'x'.",
            "Write a number, such as 3.",
        ),
        (
            "command line: +policy_api_key=****",
            "There is no key 'policy_api_key'.",
            "See --help for the keys.",
        ),
    ]


def test_the_servers_of_a_configuration_stand_in_the_order_of_its_files(tmp_path: Path) -> None:
    write_gym(tmp_path)
    (tmp_path / "weather.yaml").write_text(f"config_paths: [model.yaml]\n{WEATHER}")
    config = load_in(tmp_path, "+config_paths=[weather.yaml]", *POLICY)
    assert [server.name for server in config.servers] == ["policy_model", "weather", "weather_agent"]
