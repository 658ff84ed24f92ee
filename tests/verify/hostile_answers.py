"""One thousand answers that are made to break a verifier."""

from __future__ import annotations

import os
import random

MEGABYTE = 1 << 20
CORES = (
    "9" * 5000,
    "-" + "9" * 4301,
    "1e999999999",
    "9^{9^{9^9}}",
    "9**9**9**9",
    r"\binom{10000000}{5000000}",
    r"10^{22} \mod 7",
    "10000000!",
    r"\int_0^{1000} \sin(e^{x}) dx",
    r"\sum_{k=1}^{10^{12}} \frac{1}{k}",
    r"\frac{" * 300,
    "(" * 5000 + ")" * 5000,
    "[" * 100_000 + "]" * 100_000,
    "{" * 5000,
    '{"a":' * 20_000 + "1" + "}" * 20_000,
    "<a>" * 10_000 + "</a>" * 10_000,
    "- " * 20_000,
    "a: &x [*x, *x]\n" * 1000,
    '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
    "\ud800",
    "a\udfffb",
    "\0",
    "\0" * 1000,
    "\u202e5\u202c",
    "e\u0301" * 5000,
    "\u0305" * 5000,
    "²" * 5000,
    "½" * 2000,
    "A" * MEGABYTE,
    "9" * MEGABYTE,
    " " * MEGABYTE,
    "\n" * MEGABYTE,
    "a" * 50_000 + "!",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!" * 20,
    "<think>" * 20_000,
    "</think>" * 20_000,
    "<answer>" * 20_000,
    r"\boxed{" * 20_000,
    "```python\n" * 5000,
    "Answer: " * 20_000,
    "The answer is " * 20_000,
    "*" * 100_000,
    "~" * 50_000 + "`",
    "```\n" * 100_000,
    "|" * 20_000,
    "," * 100_000,
    "1," * 50_000,
    "1 or " * 20_000,
    "=" * 20_000,
    "1=" * 20_000,
    "\\" * 100_000,
    "$" * 100_000,
    "5 " + "km " * 5000,
    "NaN",
    "Infinity",
    "-Infinity",
    "null",
    "[1e400]",
    '{"a": NaN}',
    "{" + ",".join(f'"{key}": {key}' for key in range(20_000)) + "}",
    "{" + ",".join(f"{key * ((1 << 61) - 1)}: 0" for key in range(3000)) + "}",
    "[" + ",".join(["123456789"] * 100_000) + "]",
    "__import__('os').abort()",
    "lambda: (yield)",
    "x" + "+x" * 5000,
    "select " + "(" * 5000 + "1" + ")" * 5000,
    "with recursive t(n) as (select 1 union all select n+1 from t) select max(n) from t",
    "select randomblob(1000000000)",
    "def f():\n" + " " * 5000 + "return 1",
    "event_id",
    '[{"event_id": 1e308, "event_name": "x", "start_time": "25:99", "duration": -1}]',
    '[{"event_id": ' + "9" * 5000 + ', "event_name": "x", "start_time": "10:00", "duration": 30}]',
    "ﷺ" * 5000,
    "🙂" * 50_000,
    "ß" * 50_000,
    "\x1b[2J",
    "%s%n%x{0}{__class__}",
)
_FRAMES = (
    "{}",
    r"\boxed{{{}}}",
    "<answer>{}</answer>",
    "Answer: {}",
    "The answer is {}.",
    "```python\n{}\n```",
    "```sql\n{}\n```",
    "```json\n{}\n```",
    "<action>{}</action>",
    "#### {}",
    "Final answer: {} {}",
    "$${}$$",
    "{}\n\n{}",
)
COUNT = 1000


def chosen_count(default: int) -> int:
    """Return how many answers a test sends: the variable HOSTILE_ANSWERS, or `default`."""
    return int(os.environ.get("HOSTILE_ANSWERS", default))


def hostile_answers(count: int = COUNT) -> list[str]:
    """Return `count` answers: each core in each frame first, in an order that depends on nothing, then mixtures."""
    texts = [
        frame.replace("{{", "{").replace("}}", "}").replace("{}", core) for core in CORES for frame in _FRAMES
    ]
    chosen = random.Random(0)
    chosen.shuffle(texts)
    while len(texts) < count:
        first, second = chosen.sample(CORES, 2)
        texts.append(f"{first[:20_000]}\n{second[:20_000]}")
    return texts[:count]
