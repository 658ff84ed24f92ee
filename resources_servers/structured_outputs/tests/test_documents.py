"""Documents become JSON values; what isn't one, or is a bomb, is refused in a moment."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources_servers.structured_outputs.documents.documents import (
    DocumentFormat,
    embedded_document,
    parse_document,
)
from resources_servers.structured_outputs.documents.limits import MAX_CHARACTERS, DocumentError
from resources_servers.structured_outputs.documents.writing import write_document

JSON, YAML, XML, TOML, CSV = DocumentFormat

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
VALUES = st.recursive(
    SCALARS | TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


@settings(max_examples=60)
@given(VALUES)
def test_json_and_yaml_mean_what_was_written(value: Any) -> None:
    assert parse_document(write_document(value, JSON), JSON) == value
    assert parse_document(write_document(value, JSON), YAML) == value


NAMES = st.sampled_from(["title", "pages", "in_print", "price"])
THINGS = st.lists(
    st.fixed_dictionaries({"title": st.sampled_from(["a, b", 'x "y"', "1"]), "pages": st.integers(0, 9)}),
    min_size=1,
)


@settings(max_examples=30)
@given(THINGS)
def test_toml_means_what_was_written(things: list[dict[str, Any]]) -> None:
    assert parse_document(write_document({"catalog": {"books": things}}, TOML), TOML) == {
        "catalog": {"books": things}
    }


@settings(max_examples=30)
@given(THINGS)
def test_csv_means_what_was_written_as_text(things: list[dict[str, Any]]) -> None:
    expected = [{name: str(value) for name, value in thing.items()} for thing in things]
    assert parse_document(write_document(things, CSV), CSV) == expected


DOTS = ".".join(["a"] * 200)


@pytest.mark.parametrize(
    ("text", "document_format", "value"),
    [
        (
            "a: no\nb: 2024-01-31\nc: 12:30\nd: on",
            YAML,
            {"a": "no", "b": "2024-01-31", "c": "12:30", "d": "on"},
        ),
        (
            "[010, 0o17, 0x1f, 1e3, .5, ~, Null, true, '3']",
            YAML,
            [10, 15, 31, 1000.0, 0.5, None, None, True, "3"],
        ),
        ("1: x\n<<: {a: 1}\ntrue:\n", YAML, {"1": "x", "<<": {"a": 1}, "true": None}),
        (
            "at = 1979-05-27T07:32:00Z\non = 1979-05-27",
            TOML,
            {"at": "1979-05-27T07:32:00+00:00", "on": "1979-05-27"},
        ),
        (
            '<r a="1" xmlns="urn:x"><b>x</b><b>y &lt; &#65;</b><c/><d>p<e>q</e></d></r>',
            XML,
            {"r": {"@a": "1", "b": ["x", "y < A"], "c": "", "d": {"e": "q", "#text": "p"}}},
        ),
        (
            'a,b\n\n1,"x, ""y"""\n2,"two\nlines"\n',
            CSV,
            [{"a": "1", "b": 'x, "y"'}, {"a": "2", "b": "two\nlines"}],
        ),
        ("a,b\n", CSV, []),
        ('a, b ,"c"\n x ," y ","z\n"\n', CSV, [{"a": "x", "b": " y ", "c": "z\n"}]),
        ('a,b\n"x ""y""",\n"",""', CSV, [{"a": 'x "y"', "b": ""}, {"a": "", "b": ""}]),
        ('{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}', JSON, {"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}),
        (f'a = \'{DOTS}\'\nb = """\n{DOTS}""" # {DOTS}', TOML, {"a": DOTS, "b": DOTS}),
        (f'a = "\\"{DOTS}"\nb.c."d.e" = 1.5', TOML, {"a": f'"{DOTS}', "b": {"c": {"d.e": 1.5}}}),
    ],
)
def test_values(text: str, document_format: DocumentFormat, value: object) -> None:
    assert parse_document(text, document_format) == value


BILLION_LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><l>&b;</l>'


@pytest.mark.parametrize(
    ("text", "document_format", "problem"),
    [
        ("", JSON, "empty"),
        ("{} {}", JSON, "not JSON"),
        ('{"a": NaN}', JSON, "not JSON"),
        ("Sure: {}", JSON, "not JSON"),
        ('{"a": 1, "a": 1}', JSON, "the key 'a' is repeated"),
        ('[{"b": {"a": 1, "c": 2, "a": 3}}]', JSON, "the key 'a' is repeated"),
        (r'{"a": 1, "\u0061": 2}', JSON, "the key 'a' is repeated"),
        ('{"": 1, "": 2}', JSON, "the key '' is repeated"),
        (r'{"a": "\ud800"}', JSON, "not JSON"),
        ("a: &x [1]\nb: *x", YAML, "line 1: anchors"),
        ("a: !!python/object/apply:os.system [ls]", YAML, "line 1: tags"),
        ("a: !!str 5", YAML, "line 1: tags"),
        ("--- a\n--- b", YAML, "line 2: there must be only one document"),
        ("a: 1\na: 2", YAML, "line 2: the key 'a' is repeated"),
        ("? [a]\n: b", YAML, "a key must be text"),
        ("a: 1e999", YAML, "inf is not a JSON number"),
        ("a: " + "9" * 5000, YAML, "not YAML"),
        ("a = nan", TOML, "nan is not a JSON number"),
        ("a = 1\na = 2", TOML, "not TOML"),
        (BILLION_LAUGHS, XML, "document types"),
        ('<!DOCTYPE r SYSTEM "file:///etc/passwd"><r/>', XML, "document types"),
        ("<a>&nbsp;</a>", XML, "not XML"),
        ("<a></b>", XML, "not XML"),
        ("<a/><b/>", XML, "not XML"),
        ("a,b\n1", CSV, "row 1 has 1 fields, the header 2"),
        ("a,a\n1,2", CSV, "same name"),
        ('a\n"x', CSV, "not CSV"),
    ],
)
def test_what_is_no_document_is_refused(text: str, document_format: DocumentFormat, problem: str) -> None:
    with pytest.raises(DocumentError, match=problem):
        parse_document(text, document_format)


@pytest.mark.parametrize(
    ("text", "document_format"),
    [
        ("[" * 100_000, JSON),
        ("[" * 101 + "]" * 101, JSON),
        ("[" * 100_000, YAML),
        ("".join(" " * n + "-\n" for n in range(300)), YAML),
        ("<a>" * 100_000, XML),
        ("a = " + "[" * 50_000, TOML),
        (".".join(["a"] * 400_000) + " = 1", TOML),
        ("[" + " . ".join(["a"] * 200_000) + "]", TOML),
        ("[[" + ".".join(["'a'"] * 200_000) + "]]", TOML),
        ("x = {" + ".".join(['"a\\""'] * 100_000) + " = 1}", TOML),
        ("x = [{" + ".".join(["a"] * 101) + " = 1}]", TOML),
    ],
)
def test_deep_documents_are_refused(text: str, document_format: DocumentFormat) -> None:
    with pytest.raises(DocumentError):
        parse_document(text, document_format)


@pytest.mark.parametrize("document_format", DocumentFormat)
def test_long_documents_are_refused(document_format: DocumentFormat) -> None:
    with pytest.raises(DocumentError, match="at most"):
        parse_document("a" * (MAX_CHARACTERS + 1), document_format)


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('So:\n```json\n{"a": 1}\n```\nDone.', '{"a": 1}\n'),
        ('```\n{"a": 1}\n```', '{"a": 1}\n'),
        ("```json\n1\n```\n```json\n2\n```", "2\n"),
        ("```python\nx = 1\n```", None),
        ("```python\nx\n```\n```json\n1\n```\n```python\ny\n```", "1\n"),
        ('<|BEGIN_CODE|>{"a": 1}<|END_CODE|> ```json\n2\n```', '{"a": 1}'),
        ("<|BEGIN_CODE|>1", "<|BEGIN_CODE|>1"),
    ],
)
def test_where_the_document_is(text: str, document: str | None) -> None:
    assert embedded_document(text, JSON) == document


def test_short_names_of_languages() -> None:
    assert embedded_document("```yml\na: 1\n```", YAML) == "a: 1\n"
