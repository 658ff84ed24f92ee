"""The texts of a rollout are shown and copied as they were sampled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.viewer.exporting import export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from tests.browser.conftest import serving
from tests.browser.rows import message, row_of, write_run
from tests.browser.visits import Visit

TEXTS = [
    r"The answer is \boxed{\{2, 3\}}.",
    "2*3*4 = 24 and a_b_c, **x**, __y__, ***z***, ~~gone~~, _one_*two*",
    r"C:\_tmp\*x* and \\server\share\n",
    r"\(\{1,2\}\) and \[ x_1^2 \] and $$ a \\ b $$ and $x_1$",
    r"\! \" \# \$ \% \& \' \( \) \* \+ \, \- \. \/ \: \; \< \= \> \? \@ \[ \\ \] \^ \_ \` \{ \| \} \~",
    "&lt;b&gt; &amp; &nbsp; &#42; &copy; <b>bold</b> <!-- a comment --> <br/>",
    "a\tb\t\tc  \n  two spaces before, three behind   \n\t\n\n\n\nend  ",
    "one\r\ntwo\rthree\n\r\n",
    "nul \x00, bell \x07, escape \x1b[31m, delete \x7f, next line \x85",
    "left \u202eright\u202c, \u2066isolated\u2069, mark \u200e\u200f",
    "zero\u200bwidth\u200c\u200d\u2060\ufeff, soft\u00adhyphen, no\u00a0break, line\u2028sep\u2029",
    "e\u0301 and \u0301 and Z\u0351\u036b\u0343\u032a and \u0e49 and \uac00\u1100\u1161",
    "👩‍💻 ❤️ 🏴\U000e0067\U000e0062\U000e007f 👍🏽 🇨🇭 and hidden \U000e0041\U000e0042",
    "half \ud83d of a character \udc00",
    "```python\nx = 2 * 3 * 4\n\n```\n~~~\nother\n~~~\n``a ` b`` `c*d*e`\n    indented *code*",
    "[text](https://example.com/other) <https://example.com/auto> https://example.com/a_b_c [a]: http://x 'y'",
    "![alt](x.png) [^1] [^1]: note\n[ref]: https://example.com\n[click][ref]",
    "| a | b |\n|:--|--:|\n| 1 \\| 2 | *3* |\n\n# Heading #\nSetext\n======\n---\n***",
    "3. three\n3. three again\n1) one\n- a\n    - b\n        * c\n  + d\n- [ ] open\n- [x] done",
    "It costs $5 and $6, or $7.50-$8; US$ 3 to 4 $.",
    "> quoted\nlazy\n>> twice\n\n\\\nbreak  \nend\\",
    "x" * 5000 + " " + "y" * 900,
    "",
    " ",
    "\n",
    '{"a": 1.0, "b": 12345678901234567890, "c": "\\u00e9\\/", "a": [ ], "d": {}}',
    "{{constructor}} ${x} %s {0} \\u0041 \\x41 \\n",
]


TEXTS_OF = "(these) => [...document.querySelectorAll(these)].map((one) => JSON.stringify(one.textContent))"
"""As JSON, which has halves of characters."""


def rows_of(text: str, number: int) -> dict[str, Any]:
    """Return a row that has the text in every place where texts are sampled or given."""
    items = [
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}]},
        {"type": "function_call", "name": "tool", "arguments": text, "call_id": "c"},
        {"type": "function_call_output", "output": text, "call_id": "c"},
        {"type": "custom_tool_call", "name": "shell", "input": text, "call_id": "d"},
        {"type": "message", "role": "assistant", "content": text},
        message(text),
    ]
    row = row_of(number, 0, items, note=f"row {number} of the file")
    given = [
        {"role": "system", "content": text},
        {"role": "user", "content": [{"type": "input_text", "text": text}]},
    ]
    row["responses_create_params"] = {"instructions": text, "input": given}
    return row


PLACES = 9
"""The texts of such a row that the chat shows."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[Mapping[str, Any]] = [rows_of(text, number) for number, text in enumerate(TEXTS)]
    return write_run(tmp_path_factory.mktemp("exact") / "out.jsonl", rows)


def open_chat(visit: Visit, number: int) -> None:
    visit.go(f"#/r0/rollout/{number}/0")
    visit.wait_for(f"row {number} of the file", ".reward")


def check_every_text(visit: Visit) -> None:
    for number, text in enumerate(TEXTS):
        open_chat(visit, number)
        visit.show_all_items()
        shown = visit.page.evaluate(TEXTS_OF, ".transcript pre.exact")
        wanted = PLACES if text else PLACES - 1  # no instructions
        assert list(map(json.loads, shown)) == [text] * wanted, number


def test_every_character_is_on_the_page(run: Path, visit: Visit) -> None:
    with serving([run]) as address:
        visit.open(address)
        check_every_text(visit)


def test_every_character_is_in_an_exported_file(run: Path, tmp_path: Path, visit: Visit) -> None:
    target = tmp_path / "run.html"
    target.write_text(export_page(find_runs([run]), RowFilter("")).html, encoding="utf-8")
    visit.open(target.as_uri())
    check_every_text(visit)


def test_attempts_side_by_side_show_every_character(run: Path, visit: Visit) -> None:
    with serving([run]) as address:
        visit.open(address)
        for number, text in enumerate(TEXTS):
            visit.go(f"#/r0/task/{number}")
            visit.wait_for(f"Task {number}", "h1")
            visit.page.locator(".shared .voice-assistant").nth(1).wait_for()
            shown = visit.page.evaluate(TEXTS_OF, ".voice-assistant pre.exact")
            assert list(map(json.loads, shown)) == [text] * 2


COPY = """
(element) => {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  const taken = new DataTransfer();
  const event = new ClipboardEvent("copy", {clipboardData: taken, bubbles: true, cancelable: true});
  element.dispatchEvent(event);
  return JSON.stringify([event.defaultPrevented, taken.getData("text/plain")]);
}
"""


@pytest.mark.parametrize("is_formatted", [False, True])
def test_a_copy_is_what_was_sampled(run: Path, visit: Visit, is_formatted: bool) -> None:
    with serving([run]) as address:
        visit.open(address, "#/r0/rollout/0/0")
        visit.page.locator(".transcript").wait_for()
        if is_formatted:
            visit.press("m")
        for number, text in enumerate(TEXTS):
            if not text:
                continue
            open_chat(visit, number)
            visit.show_all_items()
            answer = visit.page.locator(".voice-assistant pre.exact").last
            assert json.loads(answer.evaluate(COPY)) == [True, text], number


def test_the_button_copies_to_the_clipboard(run: Path, visit: Visit) -> None:
    with serving([run]) as address:
        visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        visit.open(address)
        for number in (0, 2, 6, 7, 10):
            open_chat(visit, number)
            visit.page.locator(".voice-assistant .copy").last.click()
            visit.page.locator(".voice-assistant .copy", has_text="copied").wait_for()
            assert visit.page.evaluate("navigator.clipboard.readText()") == TEXTS[number]


def test_what_cannot_be_seen_has_a_name(run: Path, visit: Visit) -> None:
    named = {
        7: ["CR", "CR", "CR"],
        8: ["NUL", "BEL", "ESC", "DEL", "U+0085"],
        9: ["U+202E", "U+202C"],
        13: ["U+D83D", "U+DC00"],
    }
    with serving([run]) as address:
        visit.open(address)
        for number, names in named.items():
            open_chat(visit, number)
            visit.show_all_items()
            marks = visit.page.locator(".voice-assistant").last.locator(".unseen")
            assert [mark.get_attribute("data-shown") for mark in marks.all()][: len(names)] == names


FORMULAS = (
    r"So \(\{1,2\}\) and \[ \frac{x_1^2}{2} \] and $e^{i\pi}$, not $5 or $6, `$x$`, \(\undefined\) and 2*3*4."
)
HOSTILE = r"\(\href{javascript:alert(1)}{x}\) \(\includegraphics{https://evil.example/x}\) $\htmlStyle{color:red}{y^2}$"
BOMBS = r"\(\def\a{\a\a}\a\) \(" + "{" * 2000 + r"\) $\rule{99999em}{99999em}^2$ \(" + r"\frac{" * 500 + r"\)"


def check_formulas(visit: Visit, address: str) -> None:
    visit.open(address, "#/r0/rollout/0/0")
    answers = visit.page.locator(".voice-assistant pre.exact")
    answers.first.wait_for()
    assert visit.page.locator("math").count() == 0
    visit.press("m")
    answers.first.locator("math").nth(2).wait_for()
    sources = [each.get_attribute("data-source") for each in answers.first.locator(".formula").all()]
    assert sources == [r"\(\{1,2\}\)", r"\[ \frac{x_1^2}{2} \]", r"$e^{i\pi}$"]
    for kept in ("not $5 or $6, `$x$`, ", r"\(\undefined\) and 2*3*4."):
        assert kept in (answers.first.text_content() or "")
    assert json.loads(answers.first.evaluate(COPY)) == [True, FORMULAS]
    assert visit.page.locator("main [href^=javascript], main img, main [style*=red]").count() == 0
    assert answers.nth(2).evaluate("(element) => element.scrollWidth") < 3000
    visit.press("m")
    visit.page.locator("math").first.wait_for(state="detached")
    assert answers.all_text_contents() == [FORMULAS, HOSTILE, BOMBS]


@pytest.fixture
def formulas(tmp_path: Path) -> Path:
    answers = [message(text) for text in (FORMULAS, HOSTILE, BOMBS)]
    return write_run(tmp_path / "out.jsonl", [row_of(0, 0, answers)])


def test_formulas_are_set_by_choice(formulas: Path, visit: Visit) -> None:
    with serving([formulas]) as address:
        check_formulas(visit, address)
        assert sum("katex" in url for url in visit.requests) == 1


def test_formulas_of_an_exported_file_need_no_request(formulas: Path, visit: Visit) -> None:
    target = formulas.with_name("run.html")
    target.write_text(export_page(find_runs([formulas]), RowFilter("")).html, encoding="utf-8")
    check_formulas(visit, target.as_uri())
