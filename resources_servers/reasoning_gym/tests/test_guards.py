"""No answer is executed as code, and legitimate answers pass."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

from resources_servers.reasoning_gym.guards import (
    EVAL_REPLACEMENTS,
    EXPRESSION_TASKS,
    UNSOLVED_INTEGRAL,
    integer_arithmetic,
    is_plain_expression,
)

GENERATION_ONLY = {
    "reasoning_gym.arithmetic.basic_arithmetic",
    "reasoning_gym.arithmetic.gsm_symbolic.generators_00_49",
    "reasoning_gym.arithmetic.gsm_symbolic.generators_50_99",
    "reasoning_gym.code.codeio",
}
"""Modules that call `eval` or `exec` only on generated code, never while scoring."""


@pytest.mark.parametrize(
    "text",
    [
        "49*(85 - 1)/14 - 42 - 73",
        "7*X**9 - 2*X**6 + C",
        "-x**2*cos(3*x)/3 + 2*exp(-x)*sin(x)/9 + sqrt(x**2 + 1)*asin(x)",
        "x**(1/2) + x**-3 + e**x + pi",
        "x**100",
        "  (1 +\n 2) ",
    ],
)
def test_honest_expressions_pass(text: str) -> None:
    assert is_plain_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__base__.__subclasses__()",
        "x.real",
        "eval(x)",
        "open(x)",
        "Integral(x**2, x)",
        "sympify(x)",
        "[x for x in y]",
        "lambda: 1",
        "x if x else y",
        "1 # 2",
        "'a'*3",
        "4!",
        "True",
        "сos(x)",
        "sin(x, evaluate=1)",
        "abc",
        "x = 1",
        "",
        "1+" * 1000 + "1",
        "(" * 500 + "1" + ")" * 500,
    ],
)
def test_whatever_is_no_plain_arithmetic_is_refused(text: str) -> None:
    assert not is_plain_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9",
        "((9**99)**99)**99",
        "9**99999999",
        "9**(9999*9999)",
        "9**(99999999 + 0*x)",
        "9**(99/(1/99999))",
        "9**(1/0)",
        "9**log(exp(99999999))",
        "9**-99999999",
        "2**" + "9" * 400,
    ],
)
def test_powers_that_take_gigabytes_are_refused(text: str) -> None:
    assert not is_plain_expression(text)


def test_unsolved_integrals_pass_where_they_are_asked_for() -> None:
    assert is_plain_expression("3*Integral(x**3*cos(3*x), x) + C", more_functions=UNSOLVED_INTEGRAL)


def test_integer_arithmetic_computes_and_runs_nothing() -> None:
    assert integer_arithmetic("((0x5a + 0x3) << 0x1)") == 0xBA
    for text in ("__import__('os')", "(1).real", "'a'", "1.5", "f(1)", "2**999999999"):
        with pytest.raises(ValueError, match="is not integer arithmetic"):
            integer_arithmetic(text)


def test_every_module_of_the_library_that_runs_text_is_guarded() -> None:
    found = importlib.util.find_spec("reasoning_gym")
    assert found is not None
    assert found.origin is not None
    root = Path(found.origin).parent
    running: set[str] = set()
    parsing: set[str] = set()
    for path in root.rglob("*.py"):
        module = ".".join(("reasoning_gym", *path.relative_to(root).with_suffix("").parts))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
                if isinstance(node.func, ast.Name) and name in ("eval", "exec"):
                    running.add(module)
                if name in ("parse_expr", "sympify"):
                    parsing.add(module.rsplit(".", 1)[-1])
    assert running - GENERATION_ONLY == set(EVAL_REPLACEMENTS)
    parsing.remove("propositional_logic")  # It has a parser of its own by that name.
    assert parsing == EXPRESSION_TASKS
