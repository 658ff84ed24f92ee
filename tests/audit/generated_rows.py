"""Task rows for audits of our environments, as many as rates need, each with a right attempt where rows lack one.

    write_rows("mcqa", Path("mcqa.jsonl"))      # and mcqa_gold.yaml, if attempts are declared

Rows come from an environment's own generator (`prepare.py`) or from the functions here. Right attempts are built from
the facts from which a task is built, not by its verifier.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym import PARENT_DIR
from nemo_gym.audit.answer_types import read_conversation
from tests.audit.generated_programs import make_programs, make_queries

Call = tuple[str, Mapping[str, Any]]
BOXED = "Put the final answer, and nothing else, inside \\boxed{}."


class Made(NamedTuple):
    """A row with its right attempt; the latter is left out where the row's own answer is enough."""

    row: dict[str, Any]
    text: str | None = None
    calls: Sequence[Call] = ()


def ask(question: str, /, params: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": question}]
    return {"responses_create_params": {"input": messages, **(params or {})}, **members}


def make_math(chance: random.Random) -> Iterator[Made]:
    """Numbers of four digits, expressions, small decimals."""

    def build(question: str, gold: str) -> Made:
        return Made(ask(f"{question}\n\n{BOXED}", question=question, expected_answer=gold))

    for at in range(170):
        first, second = chance.randint(101, 999), chance.randint(11, 99)
        total = first * second
        total += total % 100 in range(0, 100, 11)  # the last two digits differ, so that they can be swapped
        if total % 10 == 0:
            total += 1 + (total // 10 % 10 == 1)
        yield build(f"Case {at}: what is {first} times {second}, plus {total - first * second}?", str(total))
    for at in range(160):
        part = Fraction(chance.randint(1, 60), chance.choice((7, 11, 13, 17, 19)))
        gold = f"\\frac{{{part.numerator}}}{{{part.denominator}}}"
        if part.denominator == 1 or at % 3 == 0:
            gold = f"{chance.randint(2, 30)}\\sqrt{{{chance.choice((2, 3, 5, 7, 11))}}}"
        yield build(f"Case {at}: give the value of {gold} in its simplest form.", gold)
    for at in range(65):
        places = chance.randint(4, 9)
        yield build(f"Case {at}: write a billionth part as a decimal.", f"0.{'0' * (places - 1)}1")


def make_choices(chance: random.Random) -> Iterator[Made]:
    words = ("amber", "basalt", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper")
    for at in range(240):
        texts = chance.sample(words, 4)
        options = [{letter: text} for letter, text in zip("ABCD", texts, strict=True)]
        shown = "\n".join(f"{letter}: {text}" for option in options for letter, text in option.items())
        mode = (
            "strict_single_letter_boxed"
            if at < 90
            else "lenient_boxed"
            if at < 170
            else "lenient_answer_colon"
        )
        form = "End with `Answer: ` and the letter." if at >= 170 else "Put the letter inside \\boxed{}."
        letter = "ABCD"[at % 4]
        question = f"Case {at}: which of these stands at place {'ABCD'.index(letter) + 1}?\n{shown}\n{form}"
        yield Made(ask(question, options=options, expected_answer=letter, grading_mode=mode))


def make_matches(chance: random.Random) -> Iterator[Made]:
    for at in range(170):
        number = chance.choice((12, 23, 34, 45, 56, 67, 78, 89)) + 100 * chance.randint(1, 99)
        question = f"Case {at}: which number comes after {number - 1}? Put it in \\boxed{{}}."
        yield Made(ask(question, expected_answer=str(number), extraction_mode="boxed", case_sensitive=False))
    for at in range(170):
        word = "".join(chance.choice("bcdfglmnprst") + chance.choice("aeiou") for _ in range(4))
        question = f"Case {at}: which word is {'-'.join(word)}? Put it in \\boxed{{}}."
        yield Made(ask(question, expected_answer=word, extraction_mode="boxed", case_sensitive=False))


TIMER = {
    "type": "function", "name": "set_timer", "description": "Start a timer.", "strict": True,
    "parameters": {
        "type": "object", "required": ["minutes", "label"], "additionalProperties": False,
        "properties": {"minutes": {"type": "integer"}, "label": {"type": "string"}},
    },
}  # fmt: skip
COUNTER = [
    {
        "type": "function", "name": "increment_counter", "description": "Add to the counter.", "strict": True,
        "parameters": {
            "type": "object", "required": ["count"], "additionalProperties": False,
            "properties": {"count": {"type": "integer"}},
        },
    },
    {
        "type": "function", "name": "get_counter_value", "description": "Read the counter.", "strict": True,
        "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    },
]  # fmt: skip
WEATHER = {
    "type": "function", "name": "get_weather", "description": "The weather in a city.", "strict": True,
    "parameters": {
        "type": "object", "required": ["city"], "additionalProperties": False,
        "properties": {"city": {"type": "string"}},
    },
}  # fmt: skip


def make_timers(chance: random.Random) -> Iterator[Made]:
    for at in range(160):
        arguments = {"minutes": chance.randint(2, 90), "label": f"thing {at}"}
        question = f"Remind me about thing {at} in {arguments['minutes']} minutes."
        expected = {"name": "set_timer", "arguments": arguments}
        row = ask(question, {"tools": [TIMER]}, expected_call=expected, best_reward=3.0)
        yield Made(row, "", [("set_timer", arguments)])


def make_counters(chance: random.Random) -> Iterator[Made]:
    for at in range(160):
        start, first, second = chance.randint(0, 50), chance.randint(1, 9), chance.randint(10, 19)
        question = f"Case {at}: add {first}, then add {second} to the counter, then tell me its value."
        count = start + first + second
        row = ask(question, {"tools": COUNTER}, initial_count=start, expected_count=count)
        calls = [("increment_counter", {"count": first}), ("increment_counter", {"count": second})]
        yield Made(row, f"The counter stands at {count}.", calls)


def make_weather(chance: random.Random) -> Iterator[Made]:
    for at in range(160):
        city = f"{chance.choice(('North', 'South', 'New'))} Harbor {at}"
        row = ask(f"What is the weather like in {city}?", {"tools": [WEATHER]})
        yield Made(row, f"I have looked up the weather in {city}.", [("get_weather", {"city": city})])


def add_plans(rows: Sequence[dict[str, Any]]) -> Iterator[Made]:
    """`efficient_tool_use`: every bin that is asked for is counted in the cheapest way."""
    from resources_servers.efficient_tool_use.par import cheapest_plan

    for row in rows:
        plan = cheapest_plan([(warehouse, part) for warehouse, part in row["needed"]], row["prices"])
        calls = [(str(call.name), dict(call.arguments)) for call in plan.calls]
        yield Made(row, f"Answer: {row['expected_answer']}", calls)


def add_synonyms(rows: Sequence[dict[str, Any]]) -> Iterator[Made]:
    """`example_multi_step`: the synonyms of the term, in the order of the list."""
    for row in rows:
        system, user = (message["content"] for message in row["responses_create_params"]["input"])
        term = user.split("'")[1]
        pairs = [line.split("'") for line in system.splitlines() if " is a synonym of " in line]
        synonyms = [pair[1] for pair in pairs if pair[3] == term]
        values = row["expected_synonym_values"]
        calls: list[Call] = [("get_synonym_value", {"synonym": synonym}) for synonym in synonyms]
        yield Made(
            row, "I have handed them in.", [*calls, ("extract_synonym_values", {"synonym_values": values})]
        )


def add_repairs(rows: Sequence[dict[str, Any]]) -> Iterator[Made]:
    """`code_repair`: the right text of each file that has a bug."""
    from resources_servers.code_repair.bugs import files_of

    for row in rows:
        given = row["folder"]["files"]
        package = row["verifier_metadata"]["source_files"][0].partition("/")[0]
        right = {path: text for path, text in files_of(package).items() if given[path] != text}
        calls = [("write_file", {"path": path, "content": text}) for path, text in right.items()]
        yield Made(row, "The bugs are corrected.", calls)


def add_calendars(rows: Sequence[dict[str, Any]]) -> Iterator[Made]:
    """`calendar`: a start for every event, with the names that the conversation says."""
    from resources_servers.calendar.scheduling import ExpectedEvent, schedule

    for row in rows:
        said = read_conversation(row)
        events = [ExpectedEvent.model_validate(event) for event in row["exp_cal_state"].values()]
        starts = schedule(events)
        assert starts is not None
        answer = [
            {
                "event_id": event.event_id,
                "event_name": said.partition(f"(event id: {event.event_id})")[0].rsplit("'", 2)[1],
                "start_time": f"{starts[event.event_id] // 60:02}:{starts[event.event_id] % 60:02}",
                "duration": event.duration,
            }
            for event in events
        ]
        yield Made(row, json.dumps(answer))


def make_instructions(chance: random.Random) -> Iterator[Made]:
    """`instruction_following`: rules that a text of a known form follows."""
    for at in range(160):
        words = chance.sample(("paper", "bridge", "garden", "window", "river", "silver"), 3)
        count, bullets = chance.randint(2, 4), chance.randint(2, 6)
        lines = [f"* {words[0]} of kind {number}" for number in range(bullets)]
        text = (
            f"<<{words[1]}>>\n{words[1]} and {' '.join([words[2]] * count)} here\n"
            + "\n".join(lines)
            + "\nthe bridge"
        )
        rules: list[tuple[str, dict[str, Any], str]] = [
            ("detectable_format:number_bullet_lists", {"num_bullets": bullets}, f"Write {bullets} bullet points."),
            ("keywords:existence", {"keywords": words}, f"Use the words {', '.join(words)}."),
            ("detectable_format:title", {}, "Give a title, as <<title>>."),
            ("punctuation:no_comma", {}, "Use no comma."),
        ]  # fmt: skip
        prompt = f"Case {at}: write about a chair.\n\n" + "\n".join(f"- {words}" for _, _, words in rules)
        kinds, kwargs = [kind for kind, _, _ in rules], [{**given} for _, given, _ in rules]
        row = ask(
            prompt, prompt=prompt, instruction_id_list=kinds, kwargs=kwargs, grading_mode="binary", id=at
        )
        yield Made(row, text)


MADE: Mapping[str, Callable[[random.Random], Iterator[Made]]] = {
    "code_gen": lambda chance: (Made(*each) for each in make_programs(chance)),
    "example_multi_reward": make_timers,
    "example_session_state_mgmt": make_counters,
    "example_single_tool_call": make_weather,
    "instruction_following": make_instructions,
    "math_with_judge": make_math,
    "mcqa": make_choices,
    "string_match": make_matches,
    "text_to_sql": lambda chance: (Made(each) for each in make_queries(chance)),
}
PREPARED: Mapping[str, tuple[Sequence[str], Callable[[Sequence[dict[str, Any]]], Iterator[Made]]]] = {
    "calendar": (("--size", "160"), add_calendars),
    "code_repair": (("--size", "160"), add_repairs),
    "efficient_tool_use": (("--size", "270"), add_plans),
    "example_multi_step": (("--size", "160"), add_synonyms),
    "reasoning_gym": (
        ("--task", "chain_sum", "knights_knaves", "--size", "230"),
        lambda rows: map(Made, rows),
    ),
    "structured_outputs": (("--size", "800"), lambda rows: map(Made, rows)),
    "workplace_assistant": (("--size", "1100"), lambda rows: map(Made, rows)),
}
"""The options of `prepare.py`, and what adds right attempts to its rows."""


def make_rows(name: str, folder: Path) -> list[Made]:
    """Return the rows of an environment with different prompts. Its generator writes to `folder`."""
    made = MADE[name](random.Random(f"audit of {name}")) if name in MADE else _prepare_rows(name, folder)
    firsts: dict[str, Made] = {}
    for each in made:
        firsts.setdefault(read_conversation(each.row), each)
    return list(firsts.values())


def _prepare_rows(name: str, folder: Path) -> Iterator[Made]:
    options, add = PREPARED[name]
    output = folder / "prepared.jsonl"
    script = PARENT_DIR / "resources_servers" / name / "prepare.py"
    command = [sys.executable, str(script), *options, "--seed", "0", "--output", str(output)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return add([json.loads(line) for line in output.read_text().splitlines()])


def write_rows(made: Sequence[Made], file: Path) -> None:
    """Write rows, and their declared attempts beside them."""
    file.write_text("".join(json.dumps(each.row) + "\n" for each in made))
    scenes = [
        {
            "match": read_conversation(each.row),
            "turns": [
                {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in each.calls]},
                {"text": each.text},
            ],
        }
        for each in made
        if each.text is not None
    ]
    if scenes:
        file.with_name(f"{file.stem}_gold.yaml").write_text(json.dumps(scenes))
