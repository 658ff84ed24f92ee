"""Generated tasks state their facts and schema; paths become schemas."""

from __future__ import annotations

import json
import random

import pytest

from nemo_gym.verify.json_schema import fits_schema
from resources_servers.structured_outputs.checking import Task, find_problem, read_schema
from resources_servers.structured_outputs.closing import closed
from resources_servers.structured_outputs.documents.documents import DocumentFormat
from resources_servers.structured_outputs.documents.writing import write_document
from resources_servers.structured_outputs.prepare import convert, make_task, schema_of_paths


def test_generated_tasks_are_solved_by_their_facts() -> None:
    rng = random.Random(4)
    formats = set()
    for index in range(60):
        row = make_task(index, rng)
        document_format = DocumentFormat(row["schema_type"])
        formats.add(document_format)
        task = Task(row["schema_str"], document_format, expected=row["expected"])
        assert find_problem(write_document(row["expected"], document_format), task) is None
        assert row["schema_str"] in row["responses_create_params"]["input"][0]["content"]
    assert formats == set(DocumentFormat)


def test_the_same_seed_makes_the_same_tasks() -> None:
    assert make_task(0, random.Random(5)) == make_task(0, random.Random(5))


def test_closed_schemas_look_at_schemas_only() -> None:
    schema = {
        "properties": {"properties": {"type": "string"}, "a": {"anyOf": [{"properties": {"b": {}}}]}},
        "const": {"properties": {"c": 1}},
        "$defs": {"d": {"items": {"properties": {"e": True}}}},
    }
    result = closed(schema)
    assert isinstance(result, dict)
    assert result["required"] == ["properties", "a"]
    assert result["properties"]["properties"] == {"type": "string"}
    assert result["properties"]["a"]["anyOf"][0]["required"] == ["b"]
    assert result["const"] == {"properties": {"c": 1}}
    assert result["$defs"]["d"]["items"]["additionalProperties"] is False
    assert "required" not in schema


def test_paths_become_a_schema() -> None:
    schema = schema_of_paths(["a.b", "a.list[1].c", "a.tags.*", "a.steps.*.n"])
    good = {"a": {"b": 1, "list": [{}, {"c": 1}], "tags": ["x"], "steps": [{"n": 1}, {"n": 2}], "more": 1}}
    assert fits_schema(good, schema)
    for place, value in [("b", None), ("list", [{"c": 1}]), ("tags", []), ("steps", [{"n": 1}, {}])]:
        broken = {"a": {**good["a"], place: value}}
        if value is None:
            del broken["a"][place]
        assert not fits_schema(broken, schema), place
    assert read_schema(json.dumps(schema), close_schema=False) == schema


def test_rendering_tasks_are_refused() -> None:
    with pytest.raises(ValueError, match="rendering task"):
        convert({"task_id": "7", "rendering": True, "output_type": "HTML", "raw_output_metric": []})
