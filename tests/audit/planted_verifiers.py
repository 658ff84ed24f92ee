"""Pairs of a verifier with a bug and its repair, and a server that has one of them."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ConfigDict

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.testing import InProcessGym
from nemo_gym.transport import Caller
from nemo_gym.transport.moving_caller import build_caller

Verify = Callable[[str, Mapping[str, Any]], bool]


class Pair(NamedTuple):
    name: str
    rows: Sequence[Mapping[str, Any]]
    bug: Verify
    repair: Verify


class OpenVerifyRequest(BaseVerifyRequest, BaseRunRequest):
    model_config = ConfigDict(extra="allow")


def build_server(verify: Verify) -> type[SimpleResourcesServer]:
    """Return an environment whose reward is 1 where `verify` accepts the last message."""

    class PlantedServer(SimpleResourcesServer):
        config: BaseResourcesServerConfig

        async def verify(self, body: OpenVerifyRequest) -> BaseVerifyResponse:  # type: ignore[override]
            text = body.response.output[-1].content[0].text  # type: ignore[union-attr,index]
            reward = float(verify(text, body.model_extra or {}))
            return BaseVerifyResponse(
                responses_create_params=body.responses_create_params, response=body.response, reward=reward
            )

    return PlantedServer


def open_gym(verify: Verify) -> tuple[InProcessGym, Caller]:
    """Return a gym with that environment, named `planted`, and a caller of it."""
    gym = InProcessGym()
    gym.add(build_server(verify), "planted")
    return gym, build_caller(gym.config, gym.transport, None)


def make_row(question: str, /, **members: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": question}]}, **members}


NUMBERS = [
    make_row(f"Count to {number}. Put the answer inside \\boxed{{}}.", expected_answer=str(number), task=at)
    for at, number in enumerate((1319, 73, -48, 7, 2500, 36))
]
CHOICES = [
    make_row(
        f"Which is number {at}?\nA: red\nB: blue\nC: pink\nPut the letter inside \\boxed{{}}.",
        expected_answer="ABC"[at % 3],
        options=[{"A": "red"}, {"B": "blue"}, {"C": "pink"}],
    )
    for at in range(6)
]
WORDS = [
    make_row("Put the word inside \\boxed{}.", expected_answer=word, case_sensitive=False)
    for word in ("Mercury", "oxygen", "north wind", "Lima", "seven seas")
]
VALUES = [
    make_row("Write JSON.", expected={"name": name, "size": size}) for name, size in (("oak", 3), ("elm", 5))
]


def find_boxes(text: str) -> list[str]:
    return re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", text)


def read_box(text: str) -> str:
    """The content of the last box, without dollars, braces, brackets and a dot."""
    boxes = find_boxes(text)
    content = boxes[-1].strip().strip("${}") if boxes else ""
    return re.sub(r"^\((.*)\)$|^\\text\{?(.*?)\}?$|\.$", lambda found: found[1] or found[2] or "", content)


def read_value(text: str) -> float | None:
    """The value of a number with separators and a typographic minus."""
    try:
        return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))
    except ValueError:
        return None


def read_number(text: str) -> float | None:
    return read_value(read_box(text))


def is_number(text: str, row: Mapping[str, Any]) -> bool:
    value = read_number(text)
    return value is not None and value == float(row["expected_answer"])


def is_letter(text: str, row: Mapping[str, Any]) -> bool:
    return bool(read_box(text) == row["expected_answer"])


def is_word(text: str, row: Mapping[str, Any]) -> bool:
    return bool(read_box(text).casefold() == row["expected_answer"].casefold())


def is_value(text: str, row: Mapping[str, Any]) -> bool:
    try:
        return (
            bool(json.loads(text[text.index("{") : text.rindex("}") + 1]) == row["expected"])
            and "[" not in text
        )
    except ValueError:
        return False


def _lacks_a_tenth(text: str, row: Mapping[str, Any]) -> bool:
    value, gold = read_number(text), float(row["expected_answer"])
    return value is not None and abs(value - gold) <= 0.1 * abs(gold)


def _compares_with_nan(text: str, row: Mapping[str, Any]) -> bool:
    value, gold = read_number(text), float(row["expected_answer"])
    return value is not None and not (value < gold or value > gold)


def _has_only_keys(text: str, row: Mapping[str, Any]) -> bool:
    try:
        return set(json.loads(text)) == set(row["expected"])
    except (ValueError, TypeError):
        return False


_turns = itertools.count()


def _is_part_of_gold(text: str, row: Mapping[str, Any]) -> bool:
    return read_box(text).casefold() in row["expected_answer"].casefold()


def _has_gold(text: str, row: Mapping[str, Any]) -> bool:
    return row["expected_answer"].casefold() in read_box(text).casefold()


def _has_no_sign(text: str, row: Mapping[str, Any]) -> bool:
    return abs(read_number(text) or 0.5) == abs(float(row["expected_answer"]))


def _is_first_box(text: str, row: Mapping[str, Any]) -> bool:
    return is_number(f"\\boxed{{{(find_boxes(text) or [''])[0]}}}", row)


def _has_digits_first(text: str, row: Mapping[str, Any]) -> bool:
    return is_number(f"\\boxed{{{read_box(text).partition(' ')[0]}}}", row)


def _is_bare_letter(text: str, row: Mapping[str, Any]) -> bool:
    return bool((find_boxes(text) or [""])[-1] == row["expected_answer"])


def _is_steady_twice(text: str, row: Mapping[str, Any]) -> bool:
    return is_number(text, row) and next(_turns) % 3 < 2


def _is_rounded(text: str, row: Mapping[str, Any]) -> bool:
    return math.isclose(read_number(text) or 0.5, float(row["expected_answer"]), abs_tol=1)


def _has_first_letter(text: str, row: Mapping[str, Any]) -> bool:
    return bool(read_box(text)[:1].casefold() == row["expected_answer"][0].casefold())


PAIRS = [
    Pair("gold anywhere", NUMBERS, lambda text, row: row["expected_answer"] in text, is_number),
    Pair("part of gold", WORDS, _is_part_of_gold, is_word),
    Pair("gold in the answer", WORDS, _has_gold, is_word),
    Pair("a tenth more or less", NUMBERS, _lacks_a_tenth, is_number),
    Pair("not a number", NUMBERS, _compares_with_nan, is_number),
    Pair("without a sign", NUMBERS, _has_no_sign, is_number),
    Pair("first box", NUMBERS, _is_first_box, is_number),
    Pair("no separators", NUMBERS, lambda text, row: "," not in text and is_number(text, row), is_number),
    Pair("digits before words", NUMBERS, _has_digits_first, is_number),
    Pair("case counts", WORDS, lambda text, row: bool(read_box(text) == row["expected_answer"]), is_word),
    Pair("any letter", CHOICES, lambda text, row: row["expected_answer"] in read_box(text), is_letter),
    Pair("bare letter only", CHOICES, _is_bare_letter, is_letter),
    Pair("English only", CHOICES, lambda text, row: is_letter(text, row) and text.isascii(), is_letter),
    Pair("no thoughts", CHOICES, lambda text, row: is_letter(text, row) and "<think>" not in text, is_letter),
    Pair("nothing is right", CHOICES, lambda text, row: not text.strip() or is_letter(text, row), is_letter),
    Pair("keys only", VALUES, _has_only_keys, is_value),
    Pair("text of JSON", VALUES, lambda text, row: text.strip() == json.dumps(row["expected"]), is_value),
    Pair("every third is refused", NUMBERS, _is_steady_twice, is_number),
    Pair("rounds", NUMBERS, _is_rounded, is_number),
    Pair("one letter is enough", WORDS, _has_first_letter, is_word),
]
