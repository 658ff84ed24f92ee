"""The page in one file refers to nothing outside of it, and its data cannot end its element."""

from __future__ import annotations

import re

import orjson

from nemo_gym.viewer.single_file import single_file

ANSWERS = {"runs": {"runs": []}, "runs/r0/rows/0-9?kind=rows": "</script><script>alert(1)</script>"}


def test_the_data_is_one_element_that_reads_as_it_was() -> None:
    page = single_file("one & only <b>", ANSWERS)
    (data,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', page, re.DOTALL)
    assert orjson.loads(data) == {"note": "one & only <b>", "answers": ANSWERS}
    assert page.count("<script") == page.count("</script>") == 2


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = single_file("", {})
    assert "default-src 'none'" in page
    assert page.count("'sha256-") == 2
    assert re.findall(r'<(?:script|link)[^>]*(?:src|href)="(?!data:,")[^"]*"', page) == []


def test_the_program_of_formulas_is_there_only_if_it_may_be_needed() -> None:
    assert 'id="formulas"' not in single_file("", {})
    page = single_file("", {}, has_formulas=True)
    assert page.count('<script type="text/plain" id="formulas">') == 1
    assert page.count("'sha256-") == 3
    assert page.count("<script") == page.count("</script>")


def test_a_base_is_allowed_only_if_it_is_given() -> None:
    assert "base-uri 'none'" in single_file("", {})
    page = single_file("", {}, base="about:srcdoc")
    assert '<base href="about:srcdoc">' in page
    assert "base-uri" not in page
