"""Beside its tests, no object of a solution decides them by its own `==`, and honest solutions still pass."""

# ruff: noqa: E501 - sources of solutions

from __future__ import annotations

import ast
import sys
import weakref
from unittest import mock

import pytest

from nemo_gym.isolation.execution import SandboxLimits
from nemo_gym.verify._code_guard import DishonestObject, Guard, find_classes
from nemo_gym.verify._code_verdicts import Reason
from nemo_gym.verify.code_execution import Checks, CheckStyle, CodeRunner, CodeVerdict

TRUE = "lambda *args: True"
COMPILED = "eval(compile('lambda self, other: True', 'tests.py', 'eval'))"
CLASSES = {
    "a function": ("class E: __eq__ = lambda self, other: True", "E()"),
    "compiled": (f"class E: __eq__ = {COMPILED}", "E()"),
    "compiled as the tests": (f"class E: __eq__ = {COMPILED.replace('tests.py', '<tests>')}", "E()"),
    "compiled as a library": (
        f"import unittest.mock\nclass E: __eq__ = {COMPILED.replace(chr(39) + 'tests.py' + chr(39), 'unittest.mock.__file__')}\n"
        "E.__module__ = 'unittest.mock'\nE.__qualname__ = '_ANY'",
        "E()",
    ),
    "partialmethod": (
        f"import functools\nclass E: __eq__ = functools.partialmethod({TRUE})",
        "E()",
    ),
    "partial": (f"import functools\nclass E: __eq__ = functools.partial({TRUE})", "E()"),
    "a callable object": ("class C:\n    def __call__(self, *_): return True\nclass E: __eq__ = C()", "E()"),
    "a builtin function": ("import operator\nclass E: __eq__ = operator.truth", "E()"),
    "a method of the base": ("class E(str): __eq__ = str.__ne__", "E('x')"),
    "a method of C": ("class E(str): __eq__ = str.startswith\n", "E('x')"),
    "a static method": (f"class E: __eq__ = staticmethod({TRUE})", "E()"),
    "a property": (f"class E: __eq__ = property(lambda self: {TRUE})", "E()"),
    "inherited": (f"class B: __eq__ = {TRUE}\nclass E(B): pass", "E()"),
    "made by type": (f"E = type('E', (), {{'__eq__': {TRUE}}})", "E()"),
    "made when it is called": ("", f"type('E', (), {{'__eq__': {TRUE}}})()"),
    "a subclass of str": (f"class E(str): __eq__ = {TRUE}", "E('x')"),
    "a subclass of int": (f"class E(int): __eq__ = {TRUE}", "E(3)"),
    "a subclass of float": (f"class E(float): __eq__ = {TRUE}", "E(3)"),
    "a subclass of list": (f"class E(list): __eq__ = {TRUE}", "E([3])"),
    "a subclass of dict": (f"class E(dict): __eq__ = {TRUE}", "E(a=3)"),
    "a subclass of tuple": (f"class E(tuple): __eq__ = {TRUE}", "E('x')"),
    "not unequal": (f"class E:\n    __eq__ = {TRUE}\n    __ne__ = lambda *args: False", "E()"),
    "a metaclass": (f"class M(type): __eq__ = {TRUE}\nclass E(metaclass=M): pass", "E"),
    "a metaclass that hides": (
        f"class M(type):\n    __eq__ = {TRUE}\n    __setattr__ = lambda *args: None\n    mro = lambda cls: [cls, object]\n"
        "    __hash__ = lambda cls: id(int)\nclass E(metaclass=M):\n    __eq__ = lambda *args: True",
        "E()",
    ),
    "the class lies": (
        f"class E:\n    __eq__ = {TRUE}\n    __class__ = property(lambda self: str)",
        "E()",
    ),
    "an empty data class that lies": (
        "import dataclasses\n@dataclasses.dataclass\nclass E:\n    __class__ = property(lambda self: str)",
        "E()",
    ),
    "a hash": (f"class E:\n    __eq__ = {TRUE}\n    __hash__ = lambda self: hash(EXPECTED)", "E()"),
    "an attribute": (f"class E: __eq__ = {TRUE}\nclass H(str): pass\nH.__eq__ = E().__eq__", "H()"),
    "ANY": ("from unittest import mock", "mock.ANY"),
    "of the class of ANY": ("from unittest import mock\nclass E(type(mock.ANY)): pass", "E()"),
    "ALWAYS_EQ": ("from test.support import ALWAYS_EQ", "ALWAYS_EQ"),
    "a proxy of ANY": ("import weakref\nfrom unittest import mock", "weakref.proxy(mock.ANY)"),
    "a mock": (
        "from unittest import mock\nE = mock.MagicMock()\nE.__eq__.return_value = True",
        "E",
    ),
    "a mock with a function": ("from unittest import mock\nE = mock.MagicMock()\nE.__eq__ = " + TRUE, "E"),
    "a list of the library with ANY": (
        "import collections\nfrom unittest import mock",
        "collections.UserString(mock.ANY)",
    ),
    "a module that claims to be a library": (
        "import sys, types\nm = types.ModuleType('json5')\nm.__file__ = sys.prefix + '/../json5.py'\nsys.modules['json5'] = m\n"
        f"class E:\n    __module__ = 'json5'\n    __eq__ = {TRUE}\nm.E = E",
        "E()",
    ),
}
"""Definitions, and an expression, whose value equals everything."""
PLACES = {
    "itself": ("VALUE", "EXPECTED"),
    "in a list": ("[VALUE]", "[EXPECTED]"),
    "in a dict": ("{'a': [(VALUE,)]}", "{'a': [(EXPECTED,)]}"),
}
ASSERTS = "def check(candidate):\n    assert candidate(0) == {0}"
METHODS = (
    "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(f(0), {0})"
)
EXPECTED = repr("four hundred and seven")


@pytest.fixture(scope="module")
def runner() -> CodeRunner:
    return CodeRunner(max_concurrency=2)


async def together(
    runner: CodeRunner, source: str, tests: str, style: CheckStyle = CheckStyle.ASSERTS
) -> CodeVerdict:
    return await runner.check_together(source, Checks(tests, "f"), style=style, timeout_s=5)


@pytest.mark.parametrize("name", CLASSES)
async def test_a_value_that_equals_everything_is_no_answer(runner: CodeRunner, name: str) -> None:
    definitions, value = (part.replace("EXPECTED", EXPECTED) for part in CLASSES[name])
    for returned, expected in PLACES.values():
        source = f"{definitions}\ndef f(x): return {returned.replace('VALUE', value)}"
        tests = expected.replace("EXPECTED", EXPECTED)
        for style, form in ((CheckStyle.ASSERTS, ASSERTS), (CheckStyle.UNITTEST, METHODS)):
            verdict = await together(runner, source, form.format(tests), style)
            assert verdict.reason in (Reason.TESTS_FAILED, Reason.NOT_PLAIN_DATA), (returned, style)


CANDIDATES = {
    "a class": f"class f(str):\n    def __new__(cls, x): return str.__new__(cls, 'x')\n    __eq__ = {TRUE}",
    "a class that makes ANY": "from unittest import mock\nclass f:\n    def __new__(cls, x): return mock.ANY",
    "a metaclass": "from unittest import mock\nclass M(type):\n    def __call__(cls, x): return mock.ANY\n"
    "class f(metaclass=M): pass",
    "a callable object": "from unittest import mock\nclass C:\n    def __call__(self, x): return mock.ANY\nf = C()",
    "a partial": "import functools\nfrom unittest import mock\nf = functools.partial(lambda a, x: a, mock.ANY)",
    "a method": "from unittest import mock\nclass C:\n    def g(self, x): return mock.ANY\nf = C().g",
    "a mock": "from unittest import mock\nf = mock.Mock(return_value=mock.ANY)",
    "a difference of 0": "class E(float):\n    __sub__ = __rsub__ = lambda *_: 0.0\n    __abs__ = lambda _: 0.0\n"
    "def f(x): return E(1)",
    "all order": f"class E:\n    __lt__ = __gt__ = __le__ = __ge__ = {TRUE}\ndef f(x): return E()",
    "a container of all": f"class E:\n    __contains__ = {TRUE}\ndef f(x): return E()",
    "a list of all": f"class E(list):\n    __contains__ = {TRUE}\ndef f(x): return E()",
    "a coroutine": "from unittest import mock\nasync def f(x): return mock.ANY",
    "a generator": "from unittest import mock\ndef f(x): yield mock.ANY",
    "an attribute": f"class E:\n    __eq__ = {TRUE}\nclass B: value = E()\ndef f(x): return B()",
    "a lazy attribute": f"class E:\n    __eq__ = {TRUE}\nclass B:\n    def __getattr__(self, name): return E()\n"
    "def f(x): return B()",
}
COMPARED = {
    "a difference of 0": "abs(candidate(0) - 407.5) < 1e-6 or abs(407.5 - candidate(0)) < 1e-6",
    "all order": "0 < candidate(0) < 1",
    "a container of all": "407 in candidate(0)",
    "a list of all": "407 in candidate(0)",
    "a coroutine": "__import__('asyncio').run(candidate(0)) == 407",
    "a generator": "list(candidate(0)) == [407]",
    "an attribute": "candidate(0).value == 407",
    "a lazy attribute": "candidate(0).value == 407",
}


@pytest.mark.parametrize("name", CANDIDATES)
async def test_a_candidate_of_another_form_is_guarded(runner: CodeRunner, name: str) -> None:
    test = COMPARED.get(name, "candidate(0) == 407")
    verdict = await together(runner, CANDIDATES[name], f"def check(candidate):\n    assert {test}")
    assert verdict.reason in (Reason.TESTS_FAILED, Reason.NOT_PLAIN_DATA), verdict.detail


ARRAYS = {
    "an equality": (
        "class E(np.ndarray): __eq__ = lambda *_: np.True_\ndef f(x): return np.arange(3).view(E)",
        False,
    ),
    "a function of arrays": (
        "class E(np.ndarray): __array_ufunc__ = lambda *_, **__: np.True_\ndef f(x): return np.arange(3).view(E)",
        False,
    ),
    "no array": ("class E: __array_ufunc__ = lambda *_, **__: np.True_\ndef f(x): return E()", False),
    "ANY in an array": (
        "from unittest import mock\ndef f(x): return np.array([mock.ANY] * 3, dtype=object)",
        False,
    ),
    "ANY in arrays of arrays": (
        "from unittest import mock\ndef f(x): return [np.array([[mock.ANY]] * 3, dtype=object)[:, 0]]",
        False,
    ),
    "the right array": ("def f(x): return np.array([5, 6, 7])", True),
    "a class of arrays": ("class E(np.ndarray): pass\ndef f(x): return np.array([5, 6, 7]).view(E)", True),
    "an array of objects": ("def f(x): return np.array([5, 6, 7], dtype=object)", True),
}


@pytest.mark.parametrize("name", ARRAYS)
async def test_arrays_are_looked_into(name: str) -> None:
    pytest.importorskip("numpy")
    source, is_right = ARRAYS[name]
    runner = CodeRunner(python=sys.executable, limits=SandboxLimits(memory_bytes=2 << 30))
    tests = "def check(f):\n    assert np.all(f(0) == np.array([5, 6, 7]))\n    assert np.all(np.array([5, 6, 7]) == f(0))"
    assert (await together(runner, f"import numpy as np\n{source}", tests)).passed is is_right


async def test_an_answer_cannot_hide_behind_the_exception_that_it_causes(runner: CodeRunner) -> None:
    source = "from unittest import mock\ndef f(x): return mock.ANY"
    tests = "def check(f):\n    try: f(0)\n    except TypeError: return\n    assert False"
    assert (await together(runner, source, tests)).reason is Reason.NOT_PLAIN_DATA


async def test_a_solution_cannot_say_that_its_tests_are_broken(runner: CodeRunner) -> None:
    source = (
        "import os\nfor fd in range(3, 20):\n"
        '    try: os.write(fd, b\'broken ["x", "y"]\\n\')\n    except OSError: pass\ndef f(x): pass'
    )
    verdict = await together(runner, source, ASSERTS.format(1))
    assert verdict.reason is Reason.BROKEN_PROTOCOL


HONEST = {
    "plain data": (
        "def f(x): return {'a': [1, 2.5, (None, b'x')], 'b': {1, 2}}",
        "f(0) == {'a': [1, 2.5, (None, b'x')], 'b': {1, 2}}",
    ),
    "a long list": ("def f(x): return list(range(200_000))", "f(0) == list(range(200_000))"),
    "a list in itself": ("def f(x):\n    a = [1]; a.append(a)\n    return a", "f(0)[1][1][0] == 1"),
    "a data class": (
        "import dataclasses\n@dataclasses.dataclass(order=True)\nclass P:\n    x: int\ndef f(x): return P(x)",
        "f(3) == P(3) and f(3) != P(4) and f(3) < P(4)",
    ),
    "its own equality": (
        "class P:\n    def __init__(self, x): self.x = x\n    def __eq__(self, other): return self.x == other.x\ndef f(x): return P(x)",
        "f(3) == P(3) and not f(3) == P(4)",
    ),
    "a class": (
        "class f:\n    '''The f.'''\n    def __init__(self, x): self.x = x\n    @property\n    def twice(self): return 2 * self.x\n"
        "    @classmethod\n    def make(cls): return cls(1)\n    @staticmethod\n    def one(): return 1\n"
        "    def __eq__(self, other): return self.x == other.x\n    def __contains__(self, x): return x == self.x",
        "f(2).twice == 4 and f.make() == f(1) and f.one() == 1 and 3 in f(3) and 4 not in f(3) and f.__doc__ == 'The f.'",
    ),
    "a named tuple": (
        "import collections\nP = collections.namedtuple('P', 'x y')\ndef f(x): return P(x, 2)",
        "f(1) == (1, 2) and f(1).y == 2",
    ),
    "an enumeration": (
        "import enum\nclass C(enum.IntEnum):\n    A = 1\ndef f(x): return C.A",
        "f(1) == 1 and f(1) is C.A and f(1) in (1, 2)",
    ),
    "objects of the library": (
        "import collections, datetime, decimal, fractions, pathlib, re\ndef f(x):\n    return [collections.Counter('aab'),\n"
        "    datetime.date(2020, 1, 2), decimal.Decimal('1.5'), fractions.Fraction(1, 2), pathlib.PurePath('a/b'),\n"
        "    collections.defaultdict(int, a=1), collections.deque([1]), collections.UserList([1])]",
        "f(0) == [{'a': 2, 'b': 1}, __import__('datetime').date(2020, 1, 2), 1.5, 0.5, __import__('pathlib').PurePath('a/b'),"
        " {'a': 1}, __import__('collections').deque([1]), [1]]",
    ),
    "a generator": (
        "def f(x):\n    got = yield 1\n    yield got",
        "(lambda g: (next(g), g.send(5)))(f(0)) == (1, 5)",
    ),
    "a coroutine": ("async def f(x): return x + 1", "__import__('asyncio').run(f(1)) == 2"),
    "a function": ("def f(x): return lambda y: x + y", "f(1)(2) == 3"),
    "a wrapped name": ("def f(x):\n    'Doc.'\n    return x", "(f.__name__, f.__doc__) == ('f', 'Doc.')"),
    "a string buffer": ("import io\ndef f(x): return io.StringIO('x')", "f(0).read() == 'x'"),
    "a mock of the tests": (
        "import os\ndef f(x): return os.getcwd()",
        "(lambda m: [setattr(m, 'getcwd', m.a), f(0) is m.a.return_value, m.mock_calls == [mock.call.a()]])"
        "(patch())[1:] == [True, True]",
    ),
}
HELPERS = """
from unittest import mock
class Text:
    def __eq__(self, other): return isinstance(other, str)
def patch():
    global os
    os = mock.MagicMock()
    return os
"""


@pytest.mark.parametrize("name", HONEST)
async def test_an_honest_solution_passes(runner: CodeRunner, name: str) -> None:
    source, test = HONEST[name]
    verdict = await together(runner, source, f"{HELPERS}\ndef check(_):\n    assert {test}")
    assert (verdict.passed, verdict.detail) == (True, "")


async def test_the_tests_may_have_objects_with_an_equality(runner: CodeRunner) -> None:
    tests = f"{HELPERS}\ndef check(_):\n    assert f('x') == Text() and f(Text()) == 'y' and mock.ANY == f(1)"
    assert (await together(runner, "def f(x): return x", tests)).passed


def test_the_source_needs_the_standard_library_only() -> None:
    tree = ast.parse(
        __import__("pathlib").Path(find_classes.__code__.co_filename).read_text(encoding="utf-8")
    )
    imported = {
        alias.name for element in tree.body if isinstance(element, ast.Import) for alias in element.names
    }
    assert imported <= {"gc", "os", "sys", "types", "weakref"}


@pytest.mark.parametrize("value", [mock.ANY, [mock.ANY], {"a": (mock.ANY,)}, [[[mock.ANY]]]])
def test_what_equals_everything_is_refused(value: object) -> None:
    guard = Guard()
    with pytest.raises(DishonestObject, match="_ANY, which equals everything"):
        guard.wrap(lambda: value)()
    assert guard.refused


def test_a_proxy_is_asked_itself() -> None:
    guard = Guard()
    with pytest.raises(DishonestObject):
        guard.wrap(lambda: weakref.proxy(mock.ANY))()
