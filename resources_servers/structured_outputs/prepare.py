"""Generate tasks for `structured_outputs`.

python prepare.py --size 1000 --seed 0 --output train.jsonl      facts to write in a format, with a schema
python prepare.py --convert structeval.jsonl --output tasks.jsonl
                  rows of StructEval's text formats: their required paths become a schema
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_gym.datasets.making import add_generation, convert_rows, make_tasks, new_parser, write_rows
from nemo_gym.rows.compose import compose_task_row, replace_params
from nemo_gym.rows.parts import read_params
from resources_servers.structured_outputs.checking import Extraction, read_schema
from resources_servers.structured_outputs.documents.documents import DocumentFormat
from resources_servers.structured_outputs.documents.writing import write_document

Row = dict[str, Any]
Value = str | int | float | bool | list[str]

WORDS = (
    "amber",
    "basalt",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "iris",
    "juniper",
    "kelp",
    "lumen",
)
FIELDS: Mapping[str, tuple[str, ...]] = {
    "book": ("title", "pages", "price", "in_print", "subjects"),
    "ship": ("name", "crew", "length_m", "is_sailing", "ports"),
    "recipe": ("name", "minutes", "weight_kg", "is_vegan", "ingredients"),
    "museum": ("name", "founded", "ticket_price", "is_open", "halls"),
    "server": ("hostname", "cores", "load", "is_primary", "tags"),
}
"""The fields of each kind of thing: a text, two numbers, a boolean and a list of texts."""
HINTS = {
    DocumentFormat.XML: "The root element is <catalog>. Write arrays as repeated elements within one element. ",
    DocumentFormat.CSV: "Write one row for each object, after a header row. ",
}
PLACES = {
    Extraction.STRICT: "Answer with the document only, without a code fence and without any other text.",
    Extraction.EMBEDDED: "You may explain, but put the document into one code fence at the end.",
}


def make_task(index: int, rng: random.Random) -> Row:
    """Return a task with facts about one to three things, in words or in another format, and a schema."""
    document_format, source_format = rng.sample(list(DocumentFormat), 2)
    extraction = rng.choice(list(Extraction))
    kind = rng.choice(sorted(FIELDS))
    is_table = DocumentFormat.CSV in (document_format, source_format)
    fields = FIELDS[kind][:4] if is_table else FIELDS[kind]
    things = [_thing(fields, rng) for _ in range(rng.randint(1, 3))]
    catalog = {"catalog": {f"{kind}s": things}}
    name = document_format.upper()
    if rng.random() < 0.5:
        source = write_document(things if source_format is DocumentFormat.CSV else catalog, source_format)
        facts = f"Convert this document to {name}:\n{source.strip()}"
    else:
        facts = f"Write these facts down in {name}:\n" + "\n".join(
            f"- {kind}: {_in_words(it)}" for it in things
        )
    schema = _schema_of(kind, things[0], document_format)
    prompt = (
        f"{facts}\n\nFollow this JSON schema. Every property is required, and no other is allowed.\n"
        f"{json.dumps(schema)}\n\n{HINTS.get(document_format, '')}{PLACES[extraction]}"
    )
    expected = things if document_format is DocumentFormat.CSV else catalog
    return task_row(index, prompt, schema, document_format, extraction) | {"expected": expected}


def _thing(fields: tuple[str, ...], rng: random.Random) -> dict[str, Value]:
    values: list[Value] = [
        " ".join(rng.sample(WORDS, 2)),
        rng.randint(2, 900),
        rng.randrange(105, 9000, 10) / 100,
        rng.random() < 0.5,
        rng.sample(WORDS, rng.randint(2, 4)),
    ]
    return dict(zip(fields, values, strict=False))


def _in_words(thing: Mapping[str, Value]) -> str:
    return "; ".join(f"{field} is {json.dumps(value)}" for field, value in thing.items())


def _schema_of(kind: str, thing: Mapping[str, Value], document_format: DocumentFormat) -> Row:
    properties = {field: _type_of(value) for field, value in thing.items()}
    things = {"type": "array", "minItems": 1, "items": {"type": "object", "properties": properties}}
    if document_format is DocumentFormat.CSV:
        return things
    catalog = {"type": "object", "properties": {f"{kind}s": things}}
    return {"type": "object", "properties": {"catalog": catalog}}


def _type_of(value: Value) -> Row:
    if isinstance(value, list):
        return {"type": "array", "items": {"type": "string"}}
    return {"type": {bool: "boolean", int: "integer", float: "number", str: "string"}[type(value)]}


def task_row(
    row_id: object,
    prompt: str,
    schema: Row,
    document_format: DocumentFormat,
    extraction: Extraction,
    close_schema: bool = True,
) -> Row:
    """Return a task row. Raises InputError when the schema is invalid."""
    schema_str = json.dumps(schema)
    read_schema(schema_str, close_schema)
    return compose_task_row(
        [{"role": "user", "content": prompt}],
        row_id=row_id,
        schema_str=schema_str,
        schema_type=document_format.value,
        extraction=extraction.value,
        close_schema=close_schema,
    )


def convert(row: Mapping[str, Any]) -> Row:
    """Convert a row of StructEval, with `output_type` and the paths of `raw_output_metric`, to a task row.

    Raises ValueError for rendering tasks, which a schema cannot check.
    """
    if row.get("rendering"):
        raise ValueError(f"task {row['task_id']} is a rendering task")
    schema = schema_of_paths(row["raw_output_metric"])
    document_format = DocumentFormat(row["output_type"].lower())
    task = task_row(row["task_id"], "", schema, document_format, Extraction.EMBEDDED, close_schema=False)
    return replace_params(task, read_params(row))


_STEP = re.compile(r"[^.\[\]]+|\[\d+\]")


def schema_of_paths(paths: list[str]) -> Row:
    """Return a schema that requires all `paths`, such as `novel.characters[0].name`, `steps.*.order`, `csv::price`."""
    schema: Row = {}
    for path in paths:
        place = schema
        for step in _STEP.findall(path.removeprefix("csv::")):
            place = _descend(place, step)
    return schema


def _descend(place: Row, step: str) -> Row:
    """Make `place` require `step` and return the subschema of `step`."""
    if step == "*":
        place.update(type="array", minItems=1)
        return _member(place, "items")
    if step.startswith("["):
        index = int(step[1:-1])
        members: list[Row] = place.setdefault("prefixItems", [])
        members += [{} for _ in range(index + 1 - len(members))]
        place.update(type="array", minItems=len(members))
        return members[index]
    place["type"] = "object"
    properties = place.setdefault("properties", {})
    place["required"] = sorted({*properties, step})
    return _member(properties, step)


def _member(place: Row, name: str) -> Row:
    member: Row = place.setdefault(name, {})
    return member


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser(__doc__)
    add_generation(parser)
    parser.add_argument("--convert", type=Path, metavar="FILE")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    rows = convert_rows(options.convert, convert) if options.convert else make_tasks(make_task, options)
    write_rows(rows, options.output)


if __name__ == "__main__":
    main()
