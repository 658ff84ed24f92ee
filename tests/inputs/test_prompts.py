from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nemo_gym.failures import ConfigError
from nemo_gym.inputs.prompts import load_row_template, refuse_literal_fields
from nemo_gym.prompt import (
    PromptConfig,
    apply_prompt_to_row,
    fill_prompt,
    load_prompt_config,
    validate_prompt_compatibility,
)


def write(folder: Path, text: str) -> str:
    path = folder / "prompt.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_system_message_comes_first() -> None:
    prompt = PromptConfig(user="Solve {question}", system="You are {role}.")
    assert fill_prompt(prompt, {"question": "1+1", "role": "brief"}) == [
        {"role": "system", "content": "You are brief."},
        {"role": "user", "content": "Solve 1+1"},
    ]


def test_without_a_system_template_there_is_no_system_message() -> None:
    assert fill_prompt(PromptConfig(user="hi"), {}) == [{"role": "user", "content": "hi"}]


def test_doubled_braces_are_braces_and_values_are_not_templates() -> None:
    prompt = PromptConfig(user=r"\boxed{{}} {question}")
    assert fill_prompt(prompt, {"question": "{x} {{y}}"})[0]["content"] == r"\boxed{} {x} {{y}}"


def test_parts_of_fields_and_formats_are_filled() -> None:
    prompt = PromptConfig(user="{meta[topic]}: {count:03d} {name!r}")
    row = {"meta": {"topic": "algebra"}, "count": 7, "name": "x"}
    assert fill_prompt(prompt, row)[0]["content"] == "algebra: 007 'x'"


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text(), min_size=1))
def test_every_field_is_filled_with_its_value(row: dict[str, str]) -> None:
    template = "|".join(f"{{{name}}}" for name in row)
    assert fill_prompt(PromptConfig(user=template), row)[0]["content"] == "|".join(row.values())


def test_all_missing_fields_and_the_file_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, "user: '{question} {hint} {answer}'\nsystem: '{persona}'\n")
    with pytest.raises(ConfigError) as raised:
        fill_prompt(load_prompt_config(path), {"question": "1+1", "answer": "2"})
    message = str(raised.value)
    assert path in message
    assert "`persona`, `hint`, which the row lacks; it has `question`, `answer`" in message
    assert raised.value.failure.param == "persona"


@pytest.mark.parametrize("template", ["{", "}", "{}", "{0}", "{a:{}}", "{a[x]}", "{a.b}", "{a:zz}"])
def test_a_faulty_template_names_file_and_role(template: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"user: hi\nsystem: '{template}'\n")
    with pytest.raises(ConfigError, match="invalid template for `system`") as raised:
        fill_prompt(load_prompt_config(path), {"a": 1})
    assert path in str(raised.value)


def test_a_prompt_replaces_nothing_but_the_input_and_leaves_the_row_alone() -> None:
    row: dict[str, Any] = {"question": "1+1", "responses_create_params": {"temperature": 0.5, "tools": []}}
    filled = apply_prompt_to_row(row, PromptConfig(user="{question}"))
    assert filled == {
        "question": "1+1",
        "responses_create_params": {
            "temperature": 0.5,
            "tools": [],
            "input": [{"role": "user", "content": "1+1"}],
        },
    }
    assert row["responses_create_params"] == {"temperature": 0.5, "tools": []}


@pytest.mark.parametrize(
    "row", [{}, {"responses_create_params": None}, {"responses_create_params": {"input": []}}]
)
def test_a_row_without_input_gets_one(row: dict[str, Any]) -> None:
    assert apply_prompt_to_row(row, PromptConfig(user="hi"))["responses_create_params"]["input"] == [
        {"role": "user", "content": "hi"}
    ]


def test_a_row_with_an_input_of_its_own_is_refused() -> None:
    own = {"responses_create_params": {"input": "hello"}}
    with pytest.raises(ConfigError, match=r"responses_create_params.input of rows \[1, 2\]"):
        validate_prompt_compatibility([{}, own, own], PromptConfig(user="hi"))


def test_an_input_is_replaced_by_a_prompt_that_an_author_applies() -> None:
    own = {"responses_create_params": {"input": "hello"}}
    filled = apply_prompt_to_row(own, PromptConfig(user="hi"))
    assert filled["responses_create_params"]["input"] == [{"role": "user", "content": "hi"}]


def test_a_file_is_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "user: hi")
    monkeypatch.chdir(tmp_path)
    assert load_prompt_config("./prompt.yaml").user == "hi"


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"no/such/prompt\.yaml does not exist"):
        load_prompt_config("no/such/prompt.yaml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("system: hi", "user: Field required"),
        ("user: hi\nuesr: hi", "uesr: Extra inputs are not permitted"),
        ("user: [hi]", "user: Input should be a valid string"),
        ("- hi", "Input should be a valid dictionary"),
        ("user: {", "cannot be read"),
    ],
)
def test_a_file_with_something_else_is_refused_by_name(text: str, problem: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load_prompt_config(path)
    assert path in str(raised.value)
    assert problem in str(raised.value)


def test_a_template_made_in_code_is_validated() -> None:
    with pytest.raises(ValidationError, match="user"):
        PromptConfig.model_validate({"system": "hi"})


@pytest.mark.parametrize(
    "user",
    [
        "{{question}}",
        "Solve the question.",
        "{{ question }}",
        "${{question}}",
        "<question>",
        "%(question)s",
        "{{}}",
    ],
)
def test_a_template_that_uses_no_field_is_refused(tmp_path: Path, user: str) -> None:
    path = write(tmp_path, f"user: '{user}'\nsystem: Be brief.\n")
    with pytest.raises(ConfigError, match="uses no field of a row"):
        load_row_template(path)
    assert load_prompt_config(path).user == user


@pytest.mark.parametrize(
    "text", ["user: Go on.\nsystem: '{question}'", "user: '{a[b]:>{width}}'", "user: '{{{a}}}'"]
)
def test_one_field_is_enough(tmp_path: Path, text: str) -> None:
    load_row_template(write(tmp_path, text))


@pytest.mark.parametrize(
    "user", ["{}", "\\boxed{} {question}", "{0} {question}", "{question", "{ question }"]
)
def test_a_malformed_template_is_told_with_the_spelling_of_braces(tmp_path: Path, user: str) -> None:
    path = tmp_path / "prompt.yaml"
    path.write_text(f"user: '{user}'")
    if user == "{ question }":
        assert load_row_template(str(path)).user == user
        return
    with pytest.raises(ConfigError) as caught:
        load_row_template(str(path))
    assert caught.value.failure.code == "prompt_malformed"
    assert "\\boxed{{}}" in str(caught.value.failure.remedy)


ROW = {"question": "1+1", "answer": "2", "n": 3}


@pytest.mark.parametrize(
    "user",
    ["{answer}: {{question}}", "{n} {{ question }}", "{n} {{question|upper}}", "{n} ${{question}}",
     "{n}{{{{question}}}}", "{n} {{question.text}}", "{n} {{{{{{ question[0] }}}}}}"],
)  # fmt: skip
def test_a_field_in_double_braces_is_refused(user: str) -> None:
    with pytest.raises(ConfigError, match=r"literal text \{question\}") as caught:
        refuse_literal_fields(PromptConfig(user=user), ROW)
    assert caught.value.failure.remedy == "Write {question} with single braces for the field."
    refuse_literal_fields(PromptConfig(user=user), {"n": 3})


@pytest.mark.parametrize(
    "user",
    ["{question} \\boxed{{answer}}", "{question} \\frac{{n}}{{answer}}", "x_{{n}} is {question}", "{{{question}}}",
     '{question} as {{"answer": 3}}', "{question} {{your answer}}", "{question} {{answer: int}}"],
)  # fmt: skip
def test_braces_of_formulas_and_of_json_are_fine(user: str) -> None:
    refuse_literal_fields(PromptConfig(user=user), ROW)
