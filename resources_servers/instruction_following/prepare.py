"""Generate tasks for `instruction_following`.

python prepare.py --size 1000 --seed 0 --output train.jsonl       generated tasks of 1 to 4 instructions each
python prepare.py --convert ifeval.jsonl --output ifeval_tasks.jsonl
                                        rows of IFEval or IFBench (`prompt, instruction_id_list, kwargs`)
python prepare.py --list                all kinds of instructions
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.datasets.making import add_generation, convert_rows, make_tasks, new_parser, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.instruction_following.instructions.catalog import ALL_KINDS
from resources_servers.instruction_following.instructions.evaluation import read_instructions

REQUESTS = (
    "Explain how a bicycle stays upright.",
    "Write a letter to a neighbour about a shared garden.",
    "Describe the water cycle to a ten-year-old.",
    "Give advice to a person who moves to a new city.",
    "Tell a short story about a lighthouse keeper.",
    "Compare trains and planes for a journey of 600 kilometres.",
    "Outline a week of simple dinners.",
    "Explain why the sky is blue.",
    "Write a product description of a wooden chair.",
    "Summarise the rules of a board game that you like.",
    "Describe a morning at a market.",
    "Give reasons to learn a second language.",
)
KEYWORDS = ("river", "lantern", "quiet", "bridge", "orange", "winter", "paper", "garden", "signal", "velvet")
PHRASES = ("That is all for now.", "Let me know what you think.", "This is where it ends.")

RELATIONS = ("at least", "less than")

Parameters = dict[str, Any]


class Recipe(NamedTuple):
    """The generator of a kind of instruction."""

    aspect: str
    """The constrained aspect. A task has one instruction per aspect, so that all can be followed together."""
    draw: Callable[[random.Random], Parameters]


def _nothing(_: random.Random) -> Parameters:
    return {}


RECIPES: dict[str, Recipe] = {
    "length_constraints:number_words": Recipe(
        "length", lambda rng: {"num_words": rng.randrange(60, 300, 10), "relation": rng.choice(RELATIONS)}
    ),
    "length_constraints:number_sentences": Recipe(
        "length", lambda rng: {"num_sentences": rng.randint(4, 12), "relation": rng.choice(RELATIONS)}
    ),
    "count:word_count_range": Recipe(
        "length",
        lambda rng: (lambda low: {"min_words": low, "max_words": low + 20})(rng.randrange(40, 200, 10)),
    ),
    "length_constraints:number_paragraphs": Recipe("form", lambda rng: {"num_paragraphs": rng.randint(2, 5)}),
    "paragraphs:paragraphs2": Recipe("form", _nothing),
    "detectable_format:number_bullet_lists": Recipe("form", lambda rng: {"num_bullets": rng.randint(2, 6)}),
    "detectable_format:multiple_sections": Recipe(
        "form",
        lambda rng: {"section_spliter": rng.choice(["Section", "PART"]), "num_sections": rng.randint(2, 4)},
    ),
    "keywords:existence": Recipe(
        "keywords", lambda rng: {"keywords": rng.sample(KEYWORDS, rng.randint(1, 3))}
    ),
    "keywords:frequency": Recipe(
        "keywords",
        lambda rng: {"keyword": rng.choice(KEYWORDS), "frequency": rng.randint(2, 4), "relation": "at least"},
    ),
    "keywords:word_once": Recipe("keywords", lambda rng: {"keyword": rng.choice(KEYWORDS)}),
    "keywords:letter_frequency": Recipe(
        "letters",
        lambda rng: {
            "letter": rng.choice("bkvwz"),
            "let_frequency": rng.randint(3, 8),
            "let_relation": "at least",
        },
    ),
    "keywords:forbidden_words": Recipe(
        "forbidden",
        lambda rng: {"forbidden_words": rng.sample(["very", "because", "good", "really", "also"], 2)},
    ),
    "punctuation:no_comma": Recipe("punctuation", _nothing),
    "punctuation:punctuation_exclamation": Recipe("punctuation", _nothing),
    "change_case:english_lowercase": Recipe("case", _nothing),
    "change_case:capital_word_frequency": Recipe(
        "case", lambda rng: {"capital_frequency": rng.randint(2, 5), "capital_relation": "at least"}
    ),
    "detectable_content:number_placeholders": Recipe(
        "extras", lambda rng: {"num_placeholders": rng.randint(1, 4)}
    ),
    "detectable_format:number_highlighted_sections": Recipe(
        "extras", lambda rng: {"num_highlights": rng.randint(1, 4)}
    ),
    "detectable_format:title": Recipe("extras", _nothing),
    "startend:end_checker": Recipe("end", lambda rng: {"end_phrase": rng.choice(PHRASES)}),
    "last_word:last_word_answer": Recipe("end", lambda rng: {"last_word": rng.choice(KEYWORDS)}),
    "first_word:first_word_answer": Recipe(
        "start", lambda rng: {"first_word": rng.choice(["imagine", "first", "well"])}
    ),
    "words:start_verb": Recipe("start", _nothing),
}
CONFLICTS = ({"change_case:english_lowercase", "detectable_format:multiple_sections"},)


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    """Return a task of one to four instructions about different aspects."""
    kind_ids = _draw_kinds(rng, rng.randint(1, 4))
    kwargs = [RECIPES[kind_id].draw(rng) for kind_id in kind_ids]
    rules = "\n".join(f"- {worded(*instruction)}" for instruction in zip(kind_ids, kwargs, strict=True))
    return task_row(index, f"{rng.choice(REQUESTS)}\n\nFollow these rules:\n{rules}", kind_ids, kwargs)


def _draw_kinds(rng: random.Random, count: int) -> list[str]:
    by_aspect = {RECIPES[kind_id].aspect: kind_id for kind_id in rng.sample(sorted(RECIPES), len(RECIPES))}
    chosen = [by_aspect[aspect] for aspect in rng.sample(sorted(by_aspect), count)]
    for conflict in CONFLICTS:
        if conflict <= set(chosen):
            chosen.remove(min(conflict))
    return chosen


def worded(kind_id: str, parameters: Mapping[str, Any]) -> str:
    """Return the wording of an instruction with its parameters."""
    return ALL_KINDS[kind_id].wording.format(**{name: _shown(value) for name, value in parameters.items()})


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f'"{value}"' if isinstance(value, str) and value not in RELATIONS else str(value)


def task_row(
    row_id: object,
    prompt: str,
    kind_ids: list[str],
    kwargs: Sequence[Parameters],
    grading_mode: str = "binary",
) -> dict[str, Any]:
    """Return a task row. Raises InputError when its instructions are invalid."""
    read_instructions(kind_ids, kwargs)
    data = {
        "prompt": prompt,
        "instruction_id_list": kind_ids,
        "kwargs": list(kwargs),
        "grading_mode": grading_mode,
    }
    return {**compose_task_row([{"role": "user", "content": prompt}], row_id=row_id), **data}


def convert(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row of IFEval or IFBench to a task row."""
    kwargs = [
        {name: value for name, value in (given or {}).items() if value is not None} for given in row["kwargs"]
    ]
    row_id = row.get("key", row.get("id"))
    return task_row(
        row_id, row["prompt"], row["instruction_id_list"], kwargs, row.get("grading_mode", "binary")
    )


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser(__doc__)
    add_generation(parser)
    parser.add_argument("--convert", type=Path, metavar="FILE")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{kind.id}  {kind.wording}" for kind in ALL_KINDS.values()))
        return
    if options.output is None:
        parser.error("--output is needed")
    rows = convert_rows(options.convert, convert) if options.convert else make_tasks(make_task, options)
    write_rows(rows, options.output)


if __name__ == "__main__":
    main()
