"""Prompt templates: YAML files from which a run makes the input of a row and its other fields.

A dataset of questions can therefore be used with several prompts. A template is a Python format string: `{question}` is
replaced by that field of the row, `{{` and `}}` are braces. A row with an input must not have a template. A template
that sends the same text for every task is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from string import Formatter

import yaml
from pydantic import BaseModel, PrivateAttr, ValidationError

from nemo_gym import PARENT_DIR, WORKING_DIR
from nemo_gym.config.yaml_text import load_yaml
from nemo_gym.failures import ConfigError
from nemo_gym.paths import candidates
from nemo_gym.rows.compose import replace_params
from nemo_gym.rows.forms import AnyRow, TaskRow
from nemo_gym.rows.parts import read_params

_BRACES = r"Write {name} for a field, and {{ and }} for literal braces: \boxed{{}}."
_LITERAL_NAME = re.compile(r"(?P<formula>\\[a-zA-Z]+(?:\{[^{}]*\})*|[_^])?\{+\s*(?P<name>\w+)\s*[}|.\[]")
"""Matches a name in literal braces, and those that are part of a formula: `\\boxed{answer}`, `x_{n}`."""


class PromptConfig(BaseModel, extra="forbid"):
    """The templates of a row's messages."""

    user: str
    system: str | None = None

    _source: str = PrivateAttr(default="the prompt template")

    @property
    def source(self) -> str:
        """The file from which it was read, for messages."""
        return self._source


@lru_cache(maxsize=64)
def load_prompt_config(path: str) -> PromptConfig:
    """Return the templates in a YAML file. Each file is read once per process.

    A relative path is looked up in the current folder, the working directory of the command and the gym's folder.
    Raises `ConfigError` for a file that cannot be read or is not a template.
    """
    located = _locate(path)
    try:
        content = load_yaml(located.read_text(encoding="utf-8"))
        prompt_config = PromptConfig.model_validate(content)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"the prompt template {path} cannot be read: {error}", code="prompt_unreadable"
        ) from error
    except ValidationError as error:
        raise ConfigError(
            f"the prompt template {path} is not valid: {_describe(error)}",
            code="prompt_invalid",
            remedy="The key `user` is required and `system` is optional; both are text.",
        ) from error
    prompt_config._source = path
    return prompt_config


def load_row_template(path: str) -> PromptConfig:
    """Return the templates in a YAML file for the rows of a dataset (`load_prompt_config`).

    Raises `ConfigError` for templates that are not valid, or use no field of a row.
    """
    prompt_config = load_prompt_config(path)
    if not [
        name
        for role, text in _list_templates(prompt_config)
        for name in _list_fields(text, role, prompt_config)
    ]:
        raise ConfigError(
            f"{path} uses no field of a row, so that every task has the same prompt",
            code="prompt_without_field",
            remedy="Write {question} for the field `question`; {{question}} and other marks are literal text.",
        )
    return prompt_config


def refuse_literal_fields(prompt_config: PromptConfig, row: AnyRow) -> None:
    """Raise `ConfigError` for a template with `{{question}}` if `row` has the field `question`."""
    for role, template in _list_templates(prompt_config):
        for name in _list_literal_names(template):
            if name in row:
                raise ConfigError(
                    f"{prompt_config.source} sends the literal text {{{name}}} in `{role}`, but rows have a field "
                    f"`{name}`",
                    code="prompt_literal_field",
                    remedy=f"Write {{{name}}} with single braces for the field.",
                )


def fill_prompt(prompt_config: PromptConfig, row: AnyRow) -> list[dict[str, str]]:
    """Return the messages of `row`, the system message first.

    Raises `ConfigError` with the file and every field that the row lacks.
    """
    given = _list_templates(prompt_config)
    asked = [name for role, template in given for name in _list_fields(template, role, prompt_config)]
    missing = [name for name in dict.fromkeys(asked) if name not in row]
    if missing:
        raise ConfigError(
            f"{prompt_config.source} uses {_quote(missing)}, which the row lacks; it has {_quote(row)}",
            code="prompt_field_missing",
            remedy=_BRACES,
            param=missing[0],
        )
    return [{"role": role, "content": _fill(template, role, row, prompt_config)} for role, template in given]


def apply_prompt_to_row(row: AnyRow, prompt_config: PromptConfig) -> TaskRow:
    """Return a copy of `row` with the filled prompt as `responses_create_params.input`; other parameters are kept.

    It replaces an input of the row. Datasets with both are refused (`validate_prompt_compatibility`).
    """
    return replace_params(row, {**read_params(row), "input": fill_prompt(prompt_config, row)})


def validate_prompt_compatibility(rows: Iterable[AnyRow], prompt_config: PromptConfig) -> None:
    """Raise `ConfigError` with the indices of the rows, from 0, that already have an input."""
    having = [index for index, row in enumerate(rows) if read_params(row).get("input")]
    if having:
        raise ConfigError(
            f"{prompt_config.source} would replace responses_create_params.input of rows {having}",
            code="prompt_and_input",
            remedy="Give rows an input or give a prompt template, not both.",
            param="responses_create_params.input",
        )


def _locate(path: str) -> Path:
    located = next((place for place in (Path(path), *candidates(path)) if place.is_file()), None)
    if located is not None:
        return located
    raise ConfigError(
        f"the prompt template {path} does not exist",
        code="prompt_missing",
        remedy=f"Its path is relative to {WORKING_DIR} or to {PARENT_DIR}.",
    )


def _list_templates(prompt_config: PromptConfig) -> list[tuple[str, str]]:
    """Return the roles and templates, the system message first."""
    templates = (("system", prompt_config.system), ("user", prompt_config.user))
    return [(role, template) for role, template in templates if template is not None]


@lru_cache(maxsize=64)
def _list_literal_names(template: str) -> list[str]:
    parts = Formatter().parse(template)
    literal = "".join(text if field is None else f"{text}\0" for text, field, _, _ in parts)
    return [found["name"] for found in _LITERAL_NAME.finditer(literal) if not found["formula"]]


def _list_fields(template: str, role: str, prompt_config: PromptConfig) -> list[str]:
    """Return the field names in `template`, also those inside format specifications."""
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise _build_template_error(prompt_config, role, str(error)) from error
    names: list[str] = []
    for _, field, specification, _ in parts:
        if field is None:
            continue
        name = field.partition(".")[0].partition("[")[0]
        if not name or name.isdecimal():
            raise _build_template_error(prompt_config, role, f"{{{field}}} is not a field name")
        names += [name, *_list_fields(specification or "", role, prompt_config)]
    return names


def _fill(template: str, role: str, row: AnyRow, prompt_config: PromptConfig) -> str:
    try:
        return template.format_map(row)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise _build_template_error(prompt_config, role, f"{type(error).__name__}: {error}") from error


def _build_template_error(prompt_config: PromptConfig, role: str, problem: str) -> ConfigError:
    return ConfigError(
        f"{prompt_config.source} has an invalid template for `{role}`: {problem}",
        code="prompt_malformed",
        remedy=_BRACES,
    )


def _describe(error: ValidationError) -> str:
    return "; ".join(
        ": ".join(part for part in (".".join(map(str, problem["loc"])), problem["msg"]) if part)
        for problem in error.errors()
    )


def _quote(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
