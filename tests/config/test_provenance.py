from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.config.secret_forms import HIDDEN
from tests.config.small_gym import POLICY, load_in, load_text, write_gym

STEPS = "weather_agent.responses_api_agents.small_agent.max_steps"


def test_a_value_has_its_origin_and_all_values_that_it_overrides(tmp_path: Path) -> None:
    block = "  responses_api_agents:\n    small_agent:\n      max_steps: {}\n"
    write_gym(tmp_path, main=f"config_paths: [weather.yaml, model.yaml]\nweather_agent:\n{block.format(4)}")
    (tmp_path / "env.yaml").write_text(f"weather_agent:\n{block.format(5)}")
    config = load_in(tmp_path, "+config_paths=[main.yaml]", *POLICY, f"++{STEPS}=6")
    explanation = config.explain(STEPS)
    assert (explanation.value, str(explanation.where)) == (6, f"command line: ++{STEPS}=6")
    assert [(each.value, str(each.where)) for each in explanation.overridden] == [
        (5, "env.yaml:4:7"),
        (4, "main.yaml:5:7"),
        (3, "weather.yaml:12:7"),
    ]
    assert str(explanation).startswith(f"command line: ++{STEPS}=6; overrides 5 (env.yaml:4:7); overrides 4")


def test_an_interpolated_value_has_its_text_as_written(tmp_path: Path) -> None:
    config = load_text(tmp_path, "shared: {url: 'http://${host}/v1', host: here}\nhost: h\n")
    explanation = config.explain("shared.url")
    assert (explanation.value, explanation.written) == ("http://h/v1", "http://${host}/v1")


def test_values_of_an_interpolated_mapping_are_explained_by_the_interpolation(tmp_path: Path) -> None:
    config = load_text(tmp_path, "shared: ${other}\nother: {a: 1}\n")
    explanation = config.explain("shared.a")
    assert (explanation.value, str(explanation.where), explanation.written) == (
        1,
        "main.yaml:1:1",
        "${other}",
    )


def test_an_inherited_value_is_explained_by_its_source(tmp_path: Path) -> None:
    config = load_text(tmp_path, "heir: {_copy: base, b: 3}\nbase: {a: 1, b: 2}\n")
    assert str(config.explain("heir.a").where) == "main.yaml:2:8"
    assert [each.value for each in config.explain("heir.b").overridden] == [2]


def test_a_default_is_explained_as_one(tmp_path: Path) -> None:
    config = load_in(tmp_path)
    assert (config.explain("head_server.port").value, str(config.explain("head_server.port").where)) == (
        11000,
        "default",
    )
    assert not config.is_given("head_server.port")
    assert load_in(tmp_path, "+head_server.port=12000").is_given("head_server.port")


def test_a_list_is_explained_item_by_item_and_by_index(tmp_path: Path) -> None:
    config = load_text(tmp_path, "shared:\n  - a\n  - {b: 1}\n")
    assert [each.path for each in config.provenance.explanations()][:2] == ["shared[0]", "shared[1].b"]
    assert str(config.explain("shared.1.b").where) == "main.yaml:3:6"


def test_a_path_that_leads_nowhere_is_a_key_error(tmp_path: Path) -> None:
    config = load_in(tmp_path)
    for path in ("nothing", "head_server.prt", "head_server.port.x"):
        with pytest.raises(KeyError):
            config.explain(path)


def test_every_leaf_of_the_data_is_explained(tmp_path: Path) -> None:
    write_gym(tmp_path)
    config = load_in(tmp_path, "+config_paths=[weather.yaml,model.yaml]", *POLICY)
    paths = [each.path for each in config.provenance.explanations()]
    assert len(paths) == len(set(paths)) == 23
    assert all(config.explain(path).path == path for path in paths if "[" not in path)


def test_no_secret_is_in_an_explanation_however_it_got_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GYM_TEST_TOKEN", "canary-of-env")
    write_gym(
        tmp_path,
        main="config_paths: [model.yaml]\n"
        "policy_api_key: canary-of-file\n"
        "policy_model:\n  responses_api_models:\n    small_model:\n"
        "      headers: {X-Other: 'Bearer ${policy_api_key}'}\n"
        "shared: ['${oc.env:GYM_TEST_TOKEN}', 'short ${hf_token}', 'http://me:canary-of-url@host',"
        " '${policy_api_key}']\n"
        "hf_token: abc\n",
    )
    config = load_in(
        tmp_path,
        "+config_paths=[main.yaml]",
        "+policy_base_url=http://me:canary-of-line@host",
        "+policy_model_name=m",
        "++policy_api_key=canary-of-line-2",
    )
    shown = f"{config.hide_secrets()} {[str(each) for each in config.provenance.explanations()]} {config!r}"
    assert "canary" not in shown
    assert config.hide_secrets()["shared"] == [HIDDEN, HIDDEN, "http://****@host", HIDDEN]
    assert config.data["shared"][1] == "short abc"
    assert {"canary-of-env", "canary-of-line-2", "canary-of-url", "canary-of-line"} <= config.secret_values()


def test_values_overridden_by_a_secret_are_hidden(tmp_path: Path) -> None:
    config = load_text(tmp_path, "hf_token: canary-old\n", "++hf_token=canary-new")
    explanation = config.explain("hf_token")
    assert (explanation.value, [each.value for each in explanation.overridden]) == (HIDDEN, [HIDDEN])
