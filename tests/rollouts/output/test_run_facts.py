"""Models, environments, sampling and differing keys are read from identities of any form."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rollouts.output.run_facts import RunFacts, find_differences, find_other_settings, read_facts


def model(name: str) -> dict[str, Any]:
    return {"responses_api_models": {"vllm_model": {"model": name}}}


def agent(resources: str, server: str = "policy_model") -> dict[str, Any]:
    options = {"resources_server": {"name": resources}, "model_server": {"name": server}}
    return {"responses_api_agents": {"simple_agent": options}}


def identity(model_name: str = "small", temperature: float = 1.0, **config: Any) -> dict[str, Any]:
    return {
        "config": {"policy_model": model(model_name), "mcqa_agent": agent("mcqa"), **config},
        "responses_create_params": {"temperature": temperature},
        "code": {"commit": "abc", "files": {"app.py": model_name}},
    }


def test_the_model_is_that_of_the_agents_and_not_the_judge() -> None:
    facts = read_facts(identity(judge=model("large"), math_agent=agent("math"), other=agent("mcqa")))
    assert (facts.models, facts.model) == (("small",), "small")
    assert facts.environments == ("mcqa", "math")
    assert facts.sampling == {"temperature": 1.0}


def test_agents_of_several_models_have_no_one_model() -> None:
    facts = read_facts(identity(second=model("large"), large_agent=agent("mcqa", "second")))
    assert (facts.models, facts.model) == (("small", "large"), None)


def test_without_agents_all_models_are_named() -> None:
    config = {"policy_model": model("m")}
    assert read_facts({"config": config}).model == "m"
    assert read_facts({"config": {**config, "judge": model("n")}}).model is None


def test_an_environment_server_is_an_environment() -> None:
    assert read_facts({"config": {"shop": {"environment_servers": {"x": {}}}}}).environments == ("shop",)


@pytest.mark.parametrize(
    "odd",
    [None, [], "x", {"config": 3}, {"config": {"a": [1]}}, {"config": {"a": {"responses_api_agents": 1}}}],
)
def test_an_identity_of_another_form_tells_nothing(odd: object) -> None:
    assert read_facts(odd) == RunFacts()


@pytest.mark.parametrize("start", [None, [], {"settings": 1}, {"settings": {"tags": "one"}}])
def test_tags_of_another_form_are_none(start: object) -> None:
    assert read_facts({}, [start]).tags == ()
    assert read_facts({}, start).tags == ()


def test_the_tags_of_all_starts_are_those_of_the_run() -> None:
    starts = [{"settings": {"tags": ["nightly", "a"]}}, {"settings": {}}, {"settings": {"tags": ["a", "b"]}}]
    assert read_facts({}, starts).tags == ("nightly", "a", "b")


def change(field: str, before: object = 1, after: object = 2, rows: int = 3) -> dict[str, object]:
    return {"finished_before": rows, "changes": [[field, before, after]]}


def test_settings_that_changed_after_the_first_rows_are_told() -> None:
    starts = [{"finished_before": 0, "changes": []}, change("responses_create_params.temperature", None, 0.1)]
    (changed,) = read_facts(identity(), starts).changed
    assert str(changed) == "responses_create_params.temperature: null -> 0.1"
    assert read_facts(identity(), starts).model == "small"


def test_a_model_that_answered_before_is_one_of_the_run() -> None:
    facts = read_facts(
        identity(), [change("config.policy_model.responses_api_models.vllm_model.model", "old", "m")]
    )
    assert (facts.models, facts.model) == (("old", "small"), None)


@pytest.mark.parametrize(
    "start",
    [
        change("responses_create_params.temperature", rows=0),
        change("code.files.a.py", "x", "y"),
        change("engines.policy_model.model", "x", "y"),
        change("datasets.0.sha256", "x", "y"),
        change("datasets.0.num_repeats", 1, 2),
        {"finished_before": 3, "changes": 3},
        {"finished_before": 3, "changes": ["x", ["y"], [1, 2, 3]]},
    ],
)
def test_a_change_before_any_row_or_one_that_marks_rows_is_none_of_settings(start: object) -> None:
    assert read_facts({}, [start]).changed == ()


def test_differing_keys_are_named_with_the_value_of_each_run() -> None:
    runs = [identity(), identity("large", 0.5), identity()]
    assert [(each.key, each.values) for each in find_differences(runs)] == [
        ("policy_model.responses_api_models.vllm_model.model", ("small", "large", "small")),
        ("responses_create_params.temperature", ("1.0", "0.5", "1.0")),
    ]


def test_a_key_that_only_one_run_has_is_absent_from_the_others() -> None:
    found = find_differences([{"datasets": [{"rows": 5}]}, {"datasets": [{"rows": 5}, {"rows": 7}]}])
    assert [(each.key, each.values) for each in found] == [("datasets.1", ("(absent)", "(present)"))]
    found = find_differences([identity(), identity(judge=model("large"))])
    assert [(each.key, each.values) for each in found] == [("judge", ("(absent)", "(present)"))]


def test_equal_runs_have_no_difference() -> None:
    assert find_differences([identity(), identity()]) == find_differences([None, []]) == []


def test_shards_may_differ_in_tasks_repeats_code_and_engines_alone() -> None:
    one = identity() | {"datasets": [{"sha256": "a", "rows": 1, "num_repeats": 2, "agent_name": None}]}
    one |= {"settings": {"limit": 3, "num_repeats": {"a": 2}}, "engines": {"policy_model": {"revision": "x"}}}
    other = identity() | {"code": {"commit": "def"}, "settings": {"limit": None, "num_repeats": {"a": 4}}}
    other["datasets"] = [{"sha256": "b", "rows": 2, "num_repeats": 1, "agent_name": None}, {"sha256": "c"}]
    assert find_other_settings([one, other, one]) == []
    other["datasets"][0]["agent_name"] = "b"
    other["responses_create_params"] = {"temperature": 0.5}
    assert find_other_settings([one, other, one]) == [
        ("responses_create_params.temperature", ("1.0", "0.5", "1.0")),
        ("datasets.0.agent_name", ("null", "b", "null")),
    ]
