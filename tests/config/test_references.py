from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.small_gym import POLICY, WEATHER, load_in, only, problems_in, write_gym

LINE = ("+config_paths=[weather.yaml,model.yaml]", *POLICY)
AGENT = "weather_agent.responses_api_agents.small_agent"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_gym(tmp_path)


def test_references_to_servers_of_the_right_type_are_right(folder: Path) -> None:
    assert len(load_in(folder, *LINE).servers) == 3


def test_an_unknown_name_is_an_error_with_the_nearest_of_that_type(folder: Path) -> None:
    (folder / "weather.yaml").write_text(WEATHER.replace("name: policy_model", "name: policy_modle"))
    assert only(problems_in(folder, *LINE)) == (
        "weather.yaml:11:50",
        f"{AGENT}.model_server: there is no server 'policy_modle'.",
        "Did you mean 'policy_model'?",
    )


def test_a_name_that_resembles_nothing_is_an_error_with_all_of_that_type(folder: Path) -> None:
    problems = problems_in(folder, *LINE, f"{AGENT}.model_server.name=zzz")
    assert only(problems)[2] == "Known names: policy_model."


def test_a_missing_type_of_server_is_reported(folder: Path) -> None:
    assert only(problems_in(folder, "+config_paths=[weather.yaml]"))[2] == (
        "The configuration has no responses_api_models. Add one: by `gym … --url http://localhost:8000/v1 "
        "--model <name>`, or the file responses_api_models/vllm_model/configs/vllm_model.yaml."
    )


def test_a_server_of_another_type_is_an_error(folder: Path) -> None:
    assert only(problems_in(folder, *LINE, f"{AGENT}.model_server.name=weather")) == (
        f"command line: {AGENT}.model_server.name=weather",
        f"{AGENT}.model_server: weather belongs to resources_servers, not to responses_api_models.",
        "Known names: policy_model.",
    )


def test_a_mistyped_type_is_an_error(folder: Path) -> None:
    problems = problems_in(folder, *LINE, f"{AGENT}.model_server.type=response_api_models")
    assert only(problems)[1:] == (
        f"{AGENT}.model_server: there is no type 'response_api_models'.",
        "Did you mean 'responses_api_models'?",
    )


def test_references_are_found_however_deep(folder: Path) -> None:
    override = f"+{AGENT}.resources_server.judges=[{{of: {{type: responses_api_models, name: judge}}}}]"
    (problem,) = problems_in(folder, *LINE, override)
    assert problem.message == f"{AGENT}.resources_server.judges[0].of: there is no server 'judge'."


def test_the_server_of_the_policy_is_offered_where_only_its_url_is_given(folder: Path) -> None:
    (folder / "weather.yaml").write_text(WEATHER.replace("name: policy_model", "name: policy_modl"))
    line = ("+config_paths=[weather.yaml]", "+policy_base_url=http://localhost:8000/v1")
    assert "Did you mean 'policy_model'?" in [problem.remedy for problem in problems_in(folder, *line)]
    (folder / "weather.yaml").write_text(WEATHER)
    assert not [p for p in problems_in(folder, *line) if (p.remedy or "").startswith("Did you mean")]


def test_a_misspelt_entrypoint_hides_no_wrong_reference_of_its_server(folder: Path) -> None:
    agent = "small_agent:\n      entrypoint"
    wrong = WEATHER.replace("name: policy_model", "name: policy_modl").replace(
        agent, agent.replace("entrypoint", "entrypint")
    )
    (folder / "weather.yaml").write_text(wrong)
    found = [(problem.message, problem.remedy) for problem in problems_in(folder, *LINE)]
    assert found == [
        (f"{AGENT} has no `entrypoint`.", "Did you mean `entrypoint` by 'entrypint'?"),
        (f"{AGENT}.model_server: there is no server 'policy_modl'.", "Did you mean 'policy_model'?"),
    ]


def test_a_reference_without_a_name_is_an_error(folder: Path) -> None:
    (problem,) = problems_in(folder, *LINE, f"~{AGENT}.model_server.name")
    assert problem.message == f"{AGENT}.model_server refers to a server without its name."


def test_a_server_removed_by_inheritance_is_reported(folder: Path) -> None:
    (folder / "heir.yaml").write_text("heir:\n  _inherit_from: weather\n")
    where, message, remedy = only(
        problems_in(folder, *LINE[1:], "+config_paths=[weather.yaml,model.yaml,heir.yaml]")
    )
    assert (where, message) == (
        "weather.yaml:10:51",
        f"{AGENT}.resources_server: there is no server 'weather'.",
    )
    assert remedy == "`_inherit_from` at heir.yaml:2:3 removed it. Write `_copy` there to keep it."


def test_a_reference_to_an_almost_server_is_reported_once_as_that(folder: Path) -> None:
    (folder / "weather.yaml").write_text(WEATHER.replace("resources_servers:\n", "resource_servers:\n"))
    assert only(problems_in(folder, *LINE))[1] == "weather.resource_servers is not a kind of server."


def test_a_reference_to_a_fragment_is_an_error(folder: Path) -> None:
    whole, fragment = "      entrypoint: app.py\n      domain: agent\n", "      domain: agent\n"
    (folder / "weather.yaml").write_text(WEATHER.replace(whole, fragment, 1))
    _, message, remedy = only(problems_in(folder, *LINE))
    assert message == f"{AGENT}.resources_server: the server 'weather' has no `entrypoint`."
    assert remedy == "Write `entrypoint: app.py` at weather.yaml:1:1."


def test_a_reference_to_another_key_is_reported(folder: Path) -> None:
    (problem,) = problems_in(folder, *LINE, f"{AGENT}.model_server.name=sandbox", "+sandbox={a: 1}")
    assert problem.remedy == "The configuration has a key sandbox, but it is not a server."


def test_the_type_of_a_dataset_is_no_reference(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("{}")
    config = load_in(
        folder, *LINE, f"+{AGENT}.datasets=[{{name: d, type: example, jsonl_fpath: rows.jsonl}}]"
    )
    assert config.datasets[0].dataset.type == "example"
