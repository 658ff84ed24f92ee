from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.config.small_gym import POLICY, load_in, only, problems_in, write_gym

SOURCES = ("included", "including", "later", "env", "initial", "command line")


@pytest.mark.parametrize(
    "present", [each for each in product([False, True], repeat=len(SOURCES)) if any(each)]
)
def test_every_source_overrides_the_ones_before_it(tmp_path: Path, present: tuple[bool, ...]) -> None:
    given = {name: name for name, is_present in zip(SOURCES, present, strict=True) if is_present}
    own = {name: f"hf_token: {name}\n" if name in given else "" for name in SOURCES}
    (tmp_path / "included.yaml").write_text(own["included"])
    (tmp_path / "including.yaml").write_text(f"config_paths: [included.yaml]\n{own['including']}")
    (tmp_path / "later.yaml").write_text(own["later"])
    (tmp_path / "env.yaml").write_text(own["env"])
    overrides = ["+hf_token='command line'"] if "command line" in given else []
    initial = {"hf_token": "initial"} if "initial" in given else None
    config = load_in(tmp_path, "+config_paths=[including.yaml,later.yaml]", *overrides, initial=initial)
    assert config.data["hf_token"] == list(given)[-1]


def test_a_file_included_on_two_ways_is_read_once_and_overridden_by_both(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("hf_token: base\npolicy_api_key: base\npolicy_model_name: base\n")
    (tmp_path / "left.yaml").write_text("config_paths: [base.yaml]\nhf_token: left\npolicy_api_key: left\n")
    (tmp_path / "right.yaml").write_text("config_paths: [base.yaml]\nhf_token: right\n")
    config = load_in(tmp_path, "+config_paths=[left.yaml,right.yaml,base.yaml]")
    assert [config.data[key] for key in ("hf_token", "policy_api_key", "policy_model_name")] == [
        "right",
        "left",
        "base",
    ]
    assert [Path(path).name for path in config.data["config_paths"]] == [
        "base.yaml",
        "left.yaml",
        "right.yaml",
    ]


def test_env_yaml_may_name_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("hf_token: a\n")
    (tmp_path / "env.yaml").write_text("config_paths: [a.yaml]\n")
    assert load_in(tmp_path).data["hf_token"] == "a"


def test_the_command_line_replaces_the_files_that_env_yaml_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("hf_token: a\n")
    (tmp_path / "b.yaml").write_text("policy_api_key: b\n")
    (tmp_path / "env.yaml").write_text("config_paths: [a.yaml]\n")
    assert "hf_token" not in load_in(tmp_path, "+config_paths=[b.yaml]").data


def test_files_are_looked_up_in_the_working_directory_and_then_beside_the_package(tmp_path: Path) -> None:
    shipped = "responses_api_agents/simple_agent/../../configs/demo.yaml"
    (tmp_path / "a.yaml").write_text("error_on_almost_servers: true\n")
    config = load_in(tmp_path, f"+config_paths=[a.yaml,{shipped}]")
    assert {"policy_model", "reasoning_gym"} <= {server.name for server in config.servers}


def test_paths_of_files_may_be_interpolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GYM_TEST_FOLDER", "sub")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text("config_paths: ['${folder}/${name}.yaml']\nfolder: sub\n")
    (tmp_path / "sub" / "b.yaml").write_text("hf_token: b\n")
    config = load_in(tmp_path, "+config_paths=['${oc.env:GYM_TEST_FOLDER}/a.yaml']", "+name=b")
    assert config.data["hf_token"] == "b"


def test_a_path_that_cannot_be_interpolated_is_a_problem(tmp_path: Path) -> None:
    where, message, _ = only(problems_in(tmp_path, "+config_paths=['${nothing}/a.yaml']"))
    assert where == "command line: +config_paths=['${nothing}/a.yaml']"
    assert "nothing" in message


def test_a_missing_file_is_reported_where_it_is_named_with_its_nearest_neighbour(tmp_path: Path) -> None:
    (tmp_path / "weather.yaml").write_text("")
    (tmp_path / "main.yaml").write_text("config_paths:\n  - wether.yaml\n")
    where, message, remedy = only(problems_in(tmp_path, "+config_paths=[main.yaml]"))
    assert (where, message) == ("main.yaml:2:5", "There is no file 'wether.yaml'.")
    assert remedy.startswith("Did you mean 'weather.yaml'? Looked in ")


def test_all_missing_and_malformed_files_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "list.yaml").write_text("- a")
    places = [str(p.where) for p in problems_in(tmp_path, "+config_paths=[no.yaml,bad.yaml,list.yaml]")]
    assert places == [
        "command line: +config_paths=[no.yaml,bad.yaml,list.yaml]",
        "bad.yaml:2:1",
        "list.yaml:1:1",
    ]


def test_keys_of_an_unread_file_are_not_reported_as_absent(tmp_path: Path) -> None:
    write_gym(tmp_path)
    _, message, _ = only(problems_in(tmp_path, "+config_paths=[weather.yaml,modle.yaml]", *POLICY))
    assert message == "There is no file 'modle.yaml'."


def test_files_that_include_each_other_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("config_paths: [b.yaml]\n")
    (tmp_path / "b.yaml").write_text("config_paths: [a.yaml]\n")
    where, message, _ = only(problems_in(tmp_path, "+config_paths=[a.yaml]"))
    assert (where, message) == ("b.yaml:1:16", "'a.yaml' includes itself.")


@pytest.mark.parametrize("value", ["a.yaml", "[1]", "{a: b}", "[[a.yaml]]"])
def test_config_paths_is_a_list_of_texts(tmp_path: Path, value: str) -> None:
    _, message, remedy = only(problems_in(tmp_path, f"+config_paths={value}"))
    assert (message, remedy) == ("`config_paths` must be a list of files.", "Write [a.yaml,b.yaml].")


def test_plain_assignment_replaces_and_never_adds(tmp_path: Path) -> None:
    write_gym(tmp_path)
    line = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
    path = "weather_agent.responses_api_agents.small_agent"
    assert load_in(tmp_path, *line, f"{path}.max_steps=9").servers[1].config["max_steps"] == 9
    where, message, remedy = only(problems_in(tmp_path, *line, f"{path}.max_stepz=9"))
    assert where == f"command line: {path}.max_stepz=9"
    assert message == f"There is no key '{path}.max_stepz'."
    assert remedy == f"Did you mean 'max_steps'? To add it, write +{path}.max_stepz=..."


def test_a_key_right_below_a_server_s_name_is_one_of_its_options(tmp_path: Path) -> None:
    write_gym(tmp_path)
    line = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
    _, message, remedy = only(problems_in(tmp_path, *line, "weather_agent.max_steps=9"))
    assert message == "There is no key 'weather_agent.max_steps'."
    assert remedy == "To add it, write +weather_agent.responses_api_agents.small_agent.max_steps=..."
    assert remedy is not None
    assert (
        load_in(tmp_path, *line, remedy.split()[-1].replace("...", "9")).servers[1].config["max_steps"] == 9
    )


def test_plain_assignment_may_set_global_keys_that_have_a_default(tmp_path: Path) -> None:
    assert load_in(tmp_path, "head_server.port=12000").data["head_server"]["port"] == 12000


def test_plain_assignment_may_replace_an_inherited_value(tmp_path: Path) -> None:
    write_gym(tmp_path, heir="heir:\n  _inherit_from: weather_agent\n")
    config = load_in(
        tmp_path,
        "+config_paths=[weather.yaml,model.yaml,heir.yaml]",
        *POLICY,
        "heir.responses_api_agents.small_agent.max_steps=9",
    )
    heir = next(server for server in config.servers if server.name == "heir")
    assert (heir.config["max_steps"], heir.config["entrypoint"]) == (9, "app.py")


def test_adding_a_key_that_a_file_has_replaces_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("hf_token: ???\n")
    assert load_in(tmp_path, "+config_paths=[a.yaml]", "+hf_token=mine").data["hf_token"] == "mine"


def test_a_deleted_key_is_gone(tmp_path: Path) -> None:
    write_gym(tmp_path)
    line = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
    config = load_in(tmp_path, *line, "~weather_agent.responses_api_agents.small_agent.max_steps=3")
    assert "max_steps" not in config.servers[1].config


@pytest.mark.parametrize(
    ("deletion", "message"),
    [
        ("~hf_tokn", "There is no key 'hf_tokn'."),
        ("~hf_token=other", "hf_token does not have that value, so it is not deleted."),
        ("~heir.a", "heir.a is not set in any file."),
    ],
)
def test_a_deletion_that_deletes_nothing_is_reported(tmp_path: Path, deletion: str, message: str) -> None:
    (tmp_path / "a.yaml").write_text("hf_token: mine\nheir:\n  _copy: source\nsource: {a: 1}\n")
    problem = problems_in(tmp_path, "+config_paths=[a.yaml]", deletion)[0]
    assert problem.message == message


def test_the_remedy_for_an_inherited_key_deletes_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("heir:\n  _copy: source\nsource: {a: 1, b: 2}\n")
    problem = problems_in(tmp_path, "+config_paths=[a.yaml]", "~heir.a")[0]
    assert problem.remedy == "It is inherited. Write ++heir._delete_key=a."
    assert load_in(tmp_path, "+config_paths=[a.yaml]", "++heir._delete_key=a").data["heir"] == {"b": 2}


def test_an_item_of_a_list_can_be_changed_and_not_invented(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("shared:\n  - {a: 1, b: 2}\n")
    assert load_in(tmp_path, "+config_paths=[a.yaml]", "++shared.0.a=9").data["shared"] == [{"a": 9, "b": 2}]
    problem = problems_in(tmp_path, "+config_paths=[a.yaml]", "++shared.1.a=9")[0]
    assert problem.message == "The list in shared.1.a has no such item."


def test_a_server_of_an_included_file_is_left_out_with_null(tmp_path: Path) -> None:
    write_gym(tmp_path, main="config_paths: [weather.yaml, model.yaml]\nweather_agent: null\n")
    config = load_in(tmp_path, "+config_paths=[main.yaml]", *POLICY)
    assert [server.name for server in config.servers] == ["weather", "policy_model"]
