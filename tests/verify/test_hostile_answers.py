"""Hostile answers through every building block: each gets a verdict, and none raises or holds the event loop.

`HOSTILE_ANSWERS=1000` sends all of them; by default each block gets a few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import orjson
import pytest

from nemo_gym.inputs.prompts import PromptConfig
from nemo_gym.processes.workers import default_pool
from nemo_gym.verify import matching
from nemo_gym.verify.answer_faults import AnswerFault, score_in_worker, score_with_control
from nemo_gym.verify.answers import AnswerForm, final_answer, final_text
from nemo_gym.verify.code_blocks import PYTHON_LANGUAGES, complete_programs, final_code
from nemo_gym.verify.code_execution import CallCase, Checks, CodeRunner, ProgramCase
from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EquivalenceJudge
from nemo_gym.verify.function_calls import compare_calls, read_expected_calls, read_function_calls
from nemo_gym.verify.json_equality import is_same_json
from nemo_gym.verify.json_schema import fits_schema, schema_problems
from nemo_gym.verify.numbers import is_same_quantity, read_quantity
from nemo_gym.verify.patterns import last_capture
from nemo_gym.verify.state import differences, is_same_state
from nemo_gym.verify.units import read_unit
from resources_servers.math_with_judge.math_equality import compare
from resources_servers.mcqa.choices import ChoiceFormat, read_choice, read_options
from resources_servers.text_to_sql.app import extract_sql
from resources_servers.text_to_sql.sql_execution import SqlLimits, compare_with_gold, run_gold
from tests.loop_steps import MOST_CPU_S, measured_steps
from tests.verify.hostile_answers import chosen_count, hostile_answers
from tests.verify.judges import ScriptedJudge, make_judge, response_of

COUNT = chosen_count(default=24)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
Block = Callable[[str], Awaitable[object]]


def value_of(text: str) -> object:
    """Return the JSON value that an answer is, or its text."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


async def extracted(text: str) -> object:
    said = final_text(response_of(text))
    return [final_answer(said, (form,)) for form in AnswerForm], final_code(said, PYTHON_LANGUAGES)


async def mathematics(text: str) -> object:
    verdict = await compare("x+1", text, timeout_s=2.0)
    assert verdict.is_equal or verdict.reason
    return verdict


async def quantities(text: str) -> object:
    given, wanted = read_quantity(text), read_quantity("5 km")
    assert wanted is not None
    return read_unit(text), given is not None and is_same_quantity(wanted, given)


async def choices(text: str) -> object:
    options = read_options([{"A": "Oxygen"}, {"B": "Argon"}])
    return [read_choice(text, options, form) for form in ChoiceFormat]


async def texts(text: str) -> object:
    return matching.is_same_text("Rome", text), matching.says(text, "Rome")


async def patterns(text: str) -> object:
    arguments = (["(a+)+b", r"Answer: (.*)"], text)
    return await score_in_worker(last_capture, *arguments, control=([r"a"], "a"), timeout_s=1.0)


RUNNER = CodeRunner()


async def code(text: str) -> object:
    solution = final_code(text, PYTHON_LANGUAGES)
    if solution is None:
        return None
    verdicts = [
        await RUNNER.run_programs(solution, [ProgramCase("1\n", "1\n")], timeout_s=0.5),
        await RUNNER.call_function(solution, "f", [CallCase([1], [1])], timeout_s=0.5),
        await RUNNER.check(complete_programs("def f(x):\n", solution), Checks("assert f(1) == 1", "f"), timeout_s=0.5),
    ]  # fmt: skip
    assert all(verdict.passed or verdict.reason for verdict in verdicts)
    return verdicts


async def values(text: str) -> object:
    value, expected = value_of(text), {"a": [1, {"b": None}]}
    return (
        is_same_json(expected, value, tolerance=1e-6),
        [str(difference) for difference in differences(expected, value)],
        is_same_state(value, expected),
        schema_problems(value, SCHEMA),
        fits_schema(value, SCHEMA),
    )


async def function_calls(text: str) -> object:
    response = {"output": [{"type": "function_call", "name": text, "arguments": text}]}
    expected = read_expected_calls([{"name": "f", "arguments": {"a": 1}}])
    found = [
        compare_calls(expected, read_function_calls(response), in_order=in_order)
        for in_order in (True, False)
    ]
    return [str(call) for call in read_function_calls(response)], found


async def judged(text: str) -> object:
    model = ScriptedJudge(*[DIFFERENT_LABEL] * 4)
    judge = EquivalenceJudge(
        make_judge(), PromptConfig(user="{question} {first} {second}"), "first", "second"
    )

    async def ask(answer: str) -> object:
        return await judge.compare(model.client, expected="x", answer=answer, fields={"question": "?"})

    return await score_with_control(lambda: ask(text), lambda: ask("x"))


async def queries(text: str) -> object:
    tables, limits = ["CREATE TABLE t (x); INSERT INTO t VALUES (1)"], SqlLimits(seconds=0.5)
    gold = await run_gold(tables, "SELECT x FROM t", limits)
    verdict = await compare_with_gold(tables, extract_sql(text) or text, gold, limits=limits)
    assert not verdict.is_equal
    return verdict


BLOCKS: tuple[Block, ...] = (
    *(extracted, mathematics, quantities, choices, texts, patterns),
    *(code, values, function_calls, judged, queries),
)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.__name__)
async def test_every_hostile_answer_gets_a_verdict(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = []
    await block("warm")
    with measured_steps(monkeypatch) as steps:
        for text in hostile_answers(COUNT):
            await asyncio.sleep(0)  # end the step of the last answer
            steps.clear()
            try:
                await block(text)
            except Exception as error:  # noqa: BLE001 - each is a finding
                problems.append(f"{text[:40]!a}: {type(error).__name__}: {error}"[:300])
            await asyncio.sleep(0)
            if max(steps) > MOST_CPU_S:
                problems.append(f"{text[:40]!a} computed for {max(steps):.2f} s on the event loop")
    assert not problems
    assert default_pool().stats.queued == 0


async def test_a_block_that_breaks_has_the_kind_of_the_fault() -> None:
    assert isinstance(await patterns("a" * 50 + "!"), AnswerFault)
