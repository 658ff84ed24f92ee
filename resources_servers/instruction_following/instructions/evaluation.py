"""Parse a row's instruction ids and kwargs, and evaluate a text against them.

Strict: the text itself follows the instruction. Loose: the text or one of IFEval's loose variants follows it. The
variants omit Markdown asterisks, the first line, the last line, or several of these, which tolerates an introduction or
a closing remark. A text without a word follows no instruction.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from nemo_gym.verify.task_rows import invalid_row
from resources_servers.instruction_following.instructions.catalog import ALL_KINDS

_WORD = re.compile(r"\w")


class Instruction(NamedTuple):
    """A kind of instruction and its parameters in a row."""

    kind_id: str
    parameters: dict[str, Any]

    def is_followed(self, text: str) -> bool:
        """Return whether the unmodified `text` follows the instruction."""
        return _WORD.search(text) is not None and ALL_KINDS[self.kind_id].is_followed(text, **self.parameters)


class Verdict(NamedTuple):
    """For each instruction, whether the text follows it."""

    strict: list[bool]
    loose: list[bool]


def evaluate(instructions: Sequence[Instruction], text: str) -> Verdict:
    """Evaluate `text` against `instructions`. Runs in a worker, because a model's text may have any length."""
    variants = loose_variants(text)
    strict = [instruction.is_followed(text) for instruction in instructions]
    loose = [
        is_strict or any(map(instruction.is_followed, variants))
        for instruction, is_strict in zip(instructions, strict, strict=True)
    ]
    return Verdict(strict, loose)


def loose_variants(text: str) -> list[str]:
    """Return the variants of `text` for loose evaluation, without duplicates."""
    lines = text.split("\n")
    cut = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    variants = dict.fromkeys([*cut, *(variant.replace("*", "") for variant in cut)])
    return [variant for variant in variants if variant != text]


def read_instructions(
    kind_ids: Sequence[str], kwargs: Sequence[Mapping[str, Any] | None]
) -> tuple[Instruction, ...]:
    """Parse the instructions of a row. Nulls among the kwargs count as absent.

    Raises InputError that lists every unknown id and every missing, unknown or ill-typed parameter.
    """
    problems: list[str] = []
    if not kind_ids:
        problems.append("instruction_id_list: empty")
    if len(kwargs) != len(kind_ids):
        problems.append(f"kwargs: {len(kwargs)} entries for {len(kind_ids)} instructions")
    instructions = []
    for index, (kind_id, given) in enumerate(zip(kind_ids, kwargs, strict=False)):
        if kind_id not in ALL_KINDS:
            problems.append(f"instruction_id_list[{index}]: {kind_id!r} is unknown{_did_you_mean(kind_id)}")
            continue
        parameters = {name: value for name, value in (given or {}).items() if value is not None}
        try:
            model = _parameters_of(kind_id).model_validate(parameters)
        except ValidationError as error:
            problems += [f"kwargs[{index}].{_place(entry)}: {entry['msg']}" for entry in error.errors()]
        else:
            instructions.append(Instruction(kind_id, model.model_dump()))
    if problems:
        raise invalid_row("; ".join(problems), param=problems[0].partition(":")[0])
    return tuple(instructions)


@functools.cache
def _parameters_of(kind_id: str) -> type[BaseModel]:
    """Return a model of the kind's parameters, derived from the signature of its checker."""
    signature = inspect.signature(ALL_KINDS[kind_id].is_followed, eval_str=True)
    fields: dict[str, Any] = {
        name: (parameter.annotation, ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in signature.parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return create_model(kind_id, __config__=ConfigDict(extra="forbid"), **fields)


def _did_you_mean(kind_id: str) -> str:
    near = difflib.get_close_matches(kind_id, ALL_KINDS, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _place(entry: Mapping[str, Any]) -> str:
    return ".".join(map(str, entry["loc"]))
