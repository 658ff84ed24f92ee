"""Keep the objects and exceptions of a solution from deciding its tests, where both share an interpreter.

The harness executes this source before it loads the solution. Four rules:

- The operators that a class of the solution defines count between objects of the solution only. Against any other
  object Python falls back on the other's operators, or on those of the built-in base class.
- The solution must not return an object that equals everything, such as `mock.ANY`.
- An exception that ends iterations, programs or tests without an error (StopIteration, SystemExit, SkipTest) leaves the
  solution as a RefusedEnd, unless the tests name it.
- A test of unittest counts if it succeeded. It may be skipped or expected to fail if the tests say so.

A class is the library's if it is found by its name in a module below the interpreter's folders; the classes of the
tests are those that appear between the solution and the first call. A solution that attacks this guard on purpose can
still forge its verdict: nothing in an interpreter is out of reach of the code that it runs.
"""

# ruff: noqa: BLE001 - objects of a solution may raise anything

from __future__ import annotations

import gc
import os
import sys
import types
import weakref

TYPE_CHECKING = False  # `typing` is 15 ms
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable
    from typing import Any, NoReturn

COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
DIFFERENCES, ROUNDED = ("__sub__", "__rsub__"), ("__abs__", "__round__")
"""Operators by which tests compare numbers."""
OF_ARRAYS = ("__array_ufunc__", "__array_function__")
"""Members by which an object decides comparisons of numpy."""


def collect_ids(*kinds: type) -> frozenset[int]:
    """Return the ids of types. Types are told apart by them, because a metaclass may define `==` and a hash."""
    return frozenset(map(id, kinds))


NUMBERS = collect_ids(int, float, complex)
ATOMS = NUMBERS | collect_ids(type(None), bool, str, bytes, bytearray, range, slice, type(...))
SEQUENCES = collect_ids(list, tuple, set, frozenset)
CLOSED = collect_ids(
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.FrameType
)
"""Types whose members are not the value's."""
PROXIES = collect_ids(weakref.ProxyType, weakref.CallableProxyType)
HEAP_TYPE, IMMUTABLE_TYPE = 1 << 9, 1 << 8
ENDS = frozenset({"StopIteration", "StopAsyncIteration", "SkipTest", "_ShouldStop"})
"""The exceptions, apart from those that are no `Exception`, by which an iteration or a test ends without an error."""
ITERATION_END = {"__next__": StopIteration, "__anext__": StopAsyncIteration}
"""The methods that end an iteration by an exception."""
EXEMPTIONS = ("skip", "skipIf", "skipUnless", "skipTest", "SkipTest", "expectedFailure")
"""The names by which tests say that one of them need not succeed."""
MOST_OBJECTS = 20_000
"""Objects of a returned value that are looked at."""
SLOT = types.WrapperDescriptorType
"""The type of an operator that is written in C."""

members_of = type.__dict__["__dict__"].__get__
ancestors_of = type.__dict__["__mro__"].__get__
flags_of = type.__dict__["__flags__"].__get__
name_of = type.__dict__["__qualname__"].__get__


class Probe:
    """An object that equals only itself."""


class DishonestObject(TypeError):
    """The solution returned an object that equals everything, or that lies about its class."""


class RefusedEnd(Exception):
    """An exception of the solution that the tests must not take for the end of an iteration or of a test."""


class Guard:
    """Made before the solution is loaded, for tests with the names `expected`. `disarm_all` follows the solution."""

    def __init__(self, expected: frozenset[str] = frozenset()) -> None:
        self._expected = expected
        folders = (sys.prefix, sys.base_prefix, os.__file__.removesuffix("/os.py"))
        self._roots = tuple(f"{os.path.realpath(folder)}/" for folder in folders)
        self._others: dict[int, type] = {id(kind): kind for kind in find_classes()}
        self._own: dict[int, type] = {}
        self._has_been_called = False
        self.refused = ""
        """The reason why the solution cannot pass; "" if there is none."""

    def disarm_all(self) -> None:
        """Disarm the classes that exist now."""
        for kind in find_classes():
            self._disarm(kind)

    def wrap(self, candidate: Any) -> Any:
        """Return the solution's function, wrapped; a class is changed in place."""
        if isinstance(candidate, type):
            for kind in (*ancestors_of(candidate), *ancestors_of(type(candidate))):
                if id(kind) in self._own:
                    self._wrap_members(kind)
            return candidate
        return self._wrap_function(candidate)

    def _wrap_members(self, kind: type) -> None:
        for name, member in list(members_of(kind).items()):
            wrapped = member
            if type(member) is types.FunctionType:
                wrapped = self._wrap_function(member, ITERATION_END.get(name))
            elif isinstance(member, (staticmethod, classmethod)):
                wrapped = type(member)(self._wrap_function(member.__func__))
            elif isinstance(member, property) and member.fget is not None:
                wrapped = member.getter(self._wrap_function(member.fget))
            if wrapped is not member:
                type.__setattr__(kind, name, wrapped)

    def _wrap_function(
        self, function: Callable[..., Any], own_end: type[BaseException] | None = None
    ) -> Callable[..., Any]:
        """Return a function whose exceptions and values are checked. `own_end` is the one that may leave it."""

        def call_guarded(*args: Any, **kwargs: Any) -> Any:
            if not self._has_been_called:  # the classes since the solution are those of the tests
                self._has_been_called = True
                self._others.update((id(kind), kind) for kind in find_classes() if id(kind) not in self._own)
            try:
                value = function(*args, **kwargs)
            except BaseException as error:
                self._refuse_end(error, own_end)
                raise
            if type(value) is types.GeneratorType:
                return self._relay_generator(value)
            return (
                self._relay_awaited(value, own_end)
                if type(value) is types.CoroutineType
                else self._check(value)
            )

        call_guarded.__dict__.update(getattr(function, "__dict__", {}), __wrapped__=function)
        call_guarded.__name__ = getattr(function, "__name__", call_guarded.__name__)
        call_guarded.__doc__ = function.__doc__
        return call_guarded

    async def _relay_awaited(self, value: Awaitable[Any], own_end: type[BaseException] | None) -> Any:
        try:
            result = await value
        except BaseException as error:
            if type(error).__name__ not in ("CancelledError", "GeneratorExit"):  # the tests may end it
                self._refuse_end(error, own_end)
            raise
        return self._check(result)

    def _refuse_end(self, error: BaseException, own_end: type[BaseException] | None) -> None:
        """Raise a RefusedEnd in place of an exception that ends something without an error."""
        kinds = ancestors_of(type(error))
        names = {name_of(kind) for kind in kinds} - {"Exception", "BaseException", "object"}
        is_error = Exception in kinds and names.isdisjoint(ENDS)
        if not is_error and own_end not in kinds and names.isdisjoint(self._expected):
            raise RefusedEnd(f"{name_of(kinds[0])} left the solution") from error

    def run_unittest(self, module: types.ModuleType, tests: types.CodeType, _: object) -> None:
        """Run every TestCase of the tests. Raises AssertionError with the first problem."""
        import unittest

        exec(tests, module.__dict__)
        cases = [
            case
            for case in module.__dict__.values()
            if isinstance(case, type) and issubclass(case, unittest.TestCase)
        ]
        result, succeeded = unittest.TestResult(), list[str]()
        result.addSuccess = lambda test: succeeded.append(test.id())  # type: ignore[method-assign]
        suite = unittest.TestSuite(map(unittest.TestLoader().loadTestsFromTestCase, cases))
        planned = suite.countTestCases()
        suite.run(result)
        if not planned:
            raise AssertionError("no test ran")
        if result.unexpectedSuccesses:
            raise AssertionError(
                f"{result.unexpectedSuccesses[0].id()}: passed, although it is expected to fail"
            )
        for case, trace in (*result.errors, *result.failures):
            raise AssertionError(f"{case.id()}: {trace.strip().splitlines()[-1]}")
        if not succeeded or (len(succeeded) < planned and self._expected.isdisjoint(EXEMPTIONS)):
            raise AssertionError(f"{len(succeeded)} of {planned} tests succeeded")

    def _relay_generator(self, values: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        try:
            value = next(values)
            while True:
                try:
                    sent = yield self._check(value)
                except GeneratorExit:
                    values.close()
                    raise
                except BaseException as error:
                    value = values.throw(error)
                else:
                    value = values.send(sent)
        except StopIteration as end:
            return self._check(end.value)

    def _check(self, value: Any) -> Any:
        """Return `value`. Disarms the classes of its objects, and raises for one that equals everything."""
        if id(type(value)) in ATOMS:
            return value
        waiting, seen = [value], {id(value)}
        for _ in range(MOST_OBJECTS):
            if not waiting:
                break
            found = waiting.pop()
            for member in self._look_at(found):
                if id(type(member)) not in ATOMS and id(member) not in seen:
                    seen.add(id(member))
                    waiting.append(member)
        return value

    def _look_at(self, found: Any) -> Iterable[Any]:
        """Look at one object, and return its members."""
        kind = type(found)
        if id(kind) in ATOMS or id(kind) in CLOSED:
            return ()
        if id(kind) in SEQUENCES:
            return found  # type: ignore[no-any-return]
        if kind is dict:
            return (*found.keys(), *found.values())
        if any(ancestor is type for ancestor in ancestors_of(kind)):
            self._disarm(found)
            return ()
        self._disarm(kind)
        if any("__class__" in members_of(own) for own in ancestors_of(kind) if id(own) in self._own):
            self._refuse(kind, "which names another class as its own")
        if may_lie(kind) and equals_everything(found):
            self._refuse(kind, "which equals everything")
        return (*gc.get_referents(found), *objects_in_array(found))

    def _refuse(self, kind: type, why: str) -> NoReturn:
        self.refused = f"{members_of(kind).get('__module__')}.{name_of(kind)}, {why}"
        raise DishonestObject(f"it returned {self.refused}")

    def _disarm(self, kind: type) -> None:
        for ancestor in (*ancestors_of(kind), *ancestors_of(type(kind))):
            if id(ancestor) in self._own or id(ancestor) in self._others:
                continue
            if self._is_library_type(ancestor):
                self._others[id(ancestor)] = ancestor
                continue
            self._own[id(ancestor)] = ancestor
            self._disarm_own(ancestor)

    def _disarm_own(self, kind: type) -> None:
        members = members_of(kind)
        is_number = any(id(ancestor) in NUMBERS for ancestor in ancestors_of(kind))
        for name in (*COMPARISONS, *(DIFFERENCES if is_number else ())):
            if name in members and not is_slot(members[name], name):
                type.__setattr__(kind, name, self._limit(members[name]))
        for name in (*OF_ARRAYS, *(ROUNDED if is_number else ())):
            if name in members:
                type.__delattr__(kind, name)
        if "__contains__" in members:
            type.__setattr__(kind, "__contains__", doubt(members["__contains__"]))

    def _limit(self, operator: Any) -> Callable[..., Any]:
        """Return an operator that does not know the objects of others."""

        def compare_limited(left: Any, right: Any) -> Any:
            return bind(operator, left)(right) if id(type(right)) in self._own else NotImplemented

        return compare_limited

    def _is_library_type(self, kind: type) -> bool:
        flags = flags_of(kind)
        if not flags & HEAP_TYPE or flags & IMMUTABLE_TYPE:
            return True
        members = members_of(kind)
        module = sys.modules.get(str(members.get("__module__")))
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not os.path.realpath(file).startswith(self._roots):
            return False
        found: Any = module
        for name in name_of(kind).split("."):
            found = getattr(found, name, None)
        return found is kind


def find_classes() -> list[type]:
    """Return all classes of the interpreter."""
    found: dict[int, type] = {id(object): object}
    waiting: list[type] = [object]
    while waiting:
        kinds: list[type] = type.__subclasses__(waiting.pop())
        for kind in kinds:
            if id(kind) not in found:
                found[id(kind)] = kind
                waiting.append(kind)
    return list(found.values())


def bind(operator: Any, owner: Any) -> Any:
    """Return a class member as it is found on an object."""
    get = getattr(type(operator), "__get__", None)
    return operator if get is None else get(operator, owner, type(owner))


def is_slot(operator: Any, name: str) -> bool:
    """Return whether a class member is the operator `name` of a class that is written in C."""
    return type(operator) is SLOT and operator.__name__ == name


def doubt(operator: Any) -> Callable[[Any, Any], bool]:
    """Return an `in` that is false for a container that holds everything."""

    def contains(self: Any, item: Any) -> bool:
        if not bind(operator, self)(item):
            return False
        try:
            return not bind(operator, self)(Probe())
        except Exception:
            return True

    return contains


def may_lie(kind: type) -> bool:
    """Return whether objects of a class may equal everything: their `==` is written in Python, or passed on.

    Not those of `unittest.mock`: they record comparisons, and each has a class of its own, which is disarmed.
    """
    mock = sys.modules.get("unittest.mock")
    if mock is not None and any(ancestor is mock.NonCallableMock for ancestor in ancestors_of(kind)):
        return False
    equality = next(vars["__eq__"] for vars in map(members_of, ancestors_of(kind)) if "__eq__" in vars)
    return id(kind) in PROXIES or type(equality) is not SLOT


def objects_in_array(value: Any) -> Iterable[Any]:
    """Return the objects in an array of numpy, which does not tell them to the garbage collector."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not any(ancestor is numpy.ndarray for ancestor in ancestors_of(type(value))):
        return ()
    return numpy.ndarray.ravel(value).tolist() if value.dtype.hasobject else ()


def equals_everything(value: Any) -> bool:
    """Return whether a value equals an object that equals nothing."""
    try:
        return (value == Probe()) is True
    except Exception:
        return False
