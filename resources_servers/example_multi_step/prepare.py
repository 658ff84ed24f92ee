"""Generate tasks: a term with two or three synonyms in a list of other words, and the values to submit."""

from __future__ import annotations

import random
from typing import Any

from nemo_gym.datasets.making import generator_options, make_tasks, write_rows
from nemo_gym.rows.compose import compose_task_row
from resources_servers.example_multi_step.app import value_of

SYNONYMS = {
    "warm": ["balmy", "mild", "toasty"],
    "fast": ["quick", "brisk", "swift"],
    "happy": ["glad", "cheerful", "merry"],
    "large": ["big", "huge", "vast"],
    "quiet": ["hushed", "silent", "still"],
    "bright": ["radiant", "vivid", "shining"],
    "old": ["ancient", "aged", "historic"],
    "brave": ["bold", "valiant", "fearless"],
}

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "name": "get_synonym_value",
        "description": "The value of a synonym.",
        "parameters": {
            "type": "object",
            "properties": {"synonym": {"type": "string", "description": "The synonym."}},
            "required": ["synonym"],
            "additionalProperties": False,
        },
        "strict": True,
    },
    {
        "type": "function",
        "name": "extract_synonym_values",
        "description": "Hand in the values of all synonyms of the term, in the order of the list.",
        "parameters": {
            "type": "object",
            "properties": {"synonym_values": {"type": "array", "items": {"type": "integer"}}},
            "required": ["synonym_values"],
            "additionalProperties": False,
        },
        "strict": True,
    },
]


def make_task(index: int, rng: random.Random) -> dict[str, Any]:
    term = rng.choice(sorted(SYNONYMS))
    pairs = [
        (word, synonym) for word, synonyms in SYNONYMS.items() for synonym in synonyms[: rng.randint(2, 3)]
    ]
    rng.shuffle(pairs)
    listed = "\n".join(f"'{synonym}' is a synonym of '{word}'." for word, synonym in pairs)
    rules = (
        "Look up the value of every synonym of the user's term, and hand the values in "
        f"with one call, in the order of this list. Leave the term itself out.\n\n{listed}"
    )
    return compose_task_row(
        [{"role": "system", "content": rules}, {"role": "user", "content": f"The term is '{term}'."}],
        row_id=index,
        params={"tools": TOOLS},
        expected_synonym_values=[value_of(synonym) for word, synonym in pairs if word == term],
        minefield_label=term,
        minefield_label_value=value_of(term),
    )


def main(arguments: list[str] | None = None) -> None:
    options = generator_options(__doc__, arguments)
    write_rows(make_tasks(make_task, options), options.output)


if __name__ == "__main__":
    main()
