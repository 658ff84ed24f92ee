"""Every kind of instruction accepts following texts, rejects violating ones, and runs in linear time."""

from __future__ import annotations

import inspect
import time
from string import Formatter

import pytest

from resources_servers.instruction_following.instructions.catalog import ALL_KINDS
from resources_servers.instruction_following.instructions.evaluation import Instruction, read_instructions
from resources_servers.instruction_following.tests.cases import CASES, Case


def read(kind_id: str, case: Case) -> Instruction:
    (instruction,) = read_instructions([kind_id], [case.parameters])
    return instruction


def test_every_kind_has_a_case() -> None:
    assert CASES.keys() == ALL_KINDS.keys()


@pytest.mark.parametrize(("kind_id", "case"), CASES.items(), ids=CASES)
def test_follows_and_breaks(kind_id: str, case: Case) -> None:
    instruction = read(kind_id, case)
    assert [text for text in case.follows if not instruction.is_followed(text)] == []
    assert [text for text in case.breaks if instruction.is_followed(text)] == []


@pytest.mark.parametrize(("kind_id", "case"), CASES.items(), ids=CASES)
def test_no_answer_follows_nothing(kind_id: str, case: Case) -> None:
    instruction = read(kind_id, case)
    assert not instruction.is_followed("")
    assert not instruction.is_followed(" \n\t")
    assert not instruction.is_followed("...***!")


@pytest.mark.parametrize("kind_id", ALL_KINDS)
def test_the_wording_names_every_parameter(kind_id: str) -> None:
    kind = ALL_KINDS[kind_id]
    parameters = [name for name in inspect.signature(kind.is_followed).parameters if name != "text"]
    named = [field for _, field, _, _ in Formatter().parse(kind.wording) if field]
    assert sorted(named) == sorted(parameters)


HOSTILE = [
    "a" * 40_000,
    "*" * 40_000,
    '"' * 20_000 + "'" * 20_000,
    "!?" * 20_000 + "x",
    "1. " * 13_000,
    "(" * 40_000,
    " " * 40_000 + "x",
    "\n \n" * 13_000 + "x",
    "<<a b>> " * 5_000 + "<i>" * 5_000,
    "* a\n- " * 8_000,
    "[" * 40_000,
    "Question\n" * 4_000,
    "P.S. e.g. J. etc. " * 2_000,
    "a, " * 13_000,
    "a. " + "! " * 20_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text[:8]))
def test_hostile_texts_cost_linear_time(text: str) -> None:
    instructions = [read(kind_id, case) for kind_id, case in CASES.items()]
    slowest = {}
    for instruction in instructions:
        start = time.process_time()
        instruction.is_followed(text)
        slowest[instruction.kind_id] = time.process_time() - start
    # A quadratic check of 40,000 characters takes tens of seconds.
    assert max(slowest.values()) < 1.0, max(slowest, key=lambda kind_id: slowest[kind_id])
