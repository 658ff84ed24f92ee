from __future__ import annotations

import pytest

from nemo_gym.verify.code_blocks import (
    PYTHON_LANGUAGES,
    CodeBlock,
    code_blocks,
    complete_programs,
    final_code,
    runnable,
)


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("no code", []),
        ("a\n```python\nx = 1\n```\nb", [CodeBlock("python", "x = 1\n")]),
        ("```\nx\n```\n```Py title\ny\n```", [CodeBlock("", "x\n"), CodeBlock("py", "y\n")]),
        ("```python\nx = 1", [CodeBlock("python", "x = 1")]),
        ("````\n```python\nx\n```\n````", [CodeBlock("", "```python\nx\n```\n")]),
        ("~~~sql\nselect 1\n~~~", [CodeBlock("sql", "select 1\n")]),
        ("  ```python\n  x\n  ```", [CodeBlock("python", "  x\n")]),
        ("say ```x``` inline", []),
        ("```python\ns = '''\n```python\n'''\n```", [CodeBlock("python", "s = '''\n```python\n'''\n")]),
    ],
)
def test_fenced_blocks_are_found(text: str, blocks: list[CodeBlock]) -> None:
    assert code_blocks(text) == blocks


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\na\n```\nbetter:\n```python\nb\n```\n```text\nout\n```", "b\n"),
        ("```\na\n```", "a\n"),
        ("```python\na\n```\n```\nits output\n```", "a\n"),
        ("```python\na\n```\n```python\n\n```", "a\n"),
        ("```c++\na\n```", None),
        ("def f(): pass", "def f(): pass"),
        ("  \n", None),
    ],
)
def test_the_last_block_in_the_language_is_the_code(text: str, code: str | None) -> None:
    assert final_code(text, PYTHON_LANGUAGES) == code


def compiles(program: str) -> bool:
    try:
        compile(program, "", "exec")
    except SyntaxError:
        return False
    return True


PROMPT = 'import math\n\ndef area(r):\n    """Of a circle."""\n'


@pytest.mark.parametrize(
    "code",
    [
        "    return math.pi * r ** 2\n",
        "r = r * r\n    return math.pi * r",
        "if r < 0:\n    return 0\nreturn math.pi * r ** 2",
        "def area(r):\n    return math.pi * r ** 2",
        "from math import pi\n\ndef area(r): return pi * r * r",
        "area = lambda r: math.pi * r * r",
    ],
)
def test_a_body_or_a_whole_function_completes_the_prompt(code: str) -> None:
    names: dict[str, object] = {}
    exec(next(filter(compiles, complete_programs(PROMPT, code))), names)
    area = names["area"]
    assert callable(area)
    assert area(2) == pytest.approx(12.566, abs=1e-3)


def test_a_prompt_without_a_body_becomes_executable() -> None:
    names: dict[str, object] = {}
    exec(runnable("import os\ndef task(x):\n"), names)
    assert callable(names["task"])
    assert runnable(PROMPT) == PROMPT
    assert runnable("def (") == "def ("
