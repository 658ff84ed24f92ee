"""The program that runs a solution, or its tests, inside the sandbox.

The gym passes this source to `python -c` and communicates over the inherited pipes. The harness imports built-in
parts of the standard library only, because each import adds milliseconds to the start of every sandbox.

    gym → harness   marshalled objects, each after its length in 8 bytes; the first names the part to run
    harness → gym   lines of a word and JSON; a sandbox that failed to start does not send the first, `ready`

Parts:
    calls       load the solution, call its functions and send back the return values
    programs    run the solution as a program, in one fork per input, and send back its output
    tests       run `check(candidate)`; each call of `candidate` is forwarded by the gym to another sandbox, which
                runs `calls`. The solution never runs here
    together    run the solution and its tests in one interpreter, for tests that cannot be separated. `_code_guard`
                keeps the solution's objects from deciding the tests

The gym trusts the output of `tests` only: in the other parts the solution can send anything. Expected outputs
therefore never enter those sandboxes.

Values travel as JSON, with tags for types that JSON lacks: `{"tuple": [...]}`, `{"set": [...]}`,
`{"dict": [[key, value], ...]}`, `{"bytes": hex}`, `{"int": hex}`, `{"float": "nan"}`, `{"complex": [re, im]}`, and
`{"opaque": "module.Class"}` for every other object. A solution that returns an opaque object fails.
"""

# ruff: noqa: BLE001 - every exception that a solution raises is part of its answer

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False  # `typing` is 15 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, ModuleType
    from typing import Any

try:
    import _json as c_json
except ImportError:  # an interpreter without the C part of json
    import json.decoder
    import json.encoder

    quote: Callable[[str], str] = json.encoder.py_encode_basestring_ascii
    make_scanner: Callable[..., Any] = lambda _: json.decoder.JSONDecoder().raw_decode  # noqa: E731
else:
    quote, make_scanner = c_json.encode_basestring_ascii, c_json.make_scanner

LARGEST_PLAIN_INT = 1 << 63
COLLECTIONS = (tuple, set, frozenset)
ITERATION_ENDS = (StopIteration, StopAsyncIteration)
OPAQUE = '{"opaque":'
"""The beginning of an opaque object. Quotes in texts are escaped, so it occurs nowhere else."""
LONGEST_MESSAGE = 500


def dump(value: Any) -> str:
    """Return `value` as tagged JSON. Raises RecursionError for a value that contains itself."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        plain = int(value)
        return repr(plain) if abs(plain) < LARGEST_PLAIN_INT else f'{{"int":"{hex(plain)}"}}'
    if isinstance(value, float):
        number = float(value)
        return repr(number) if number - number == 0 else f'{{"float":"{number!r}"}}'
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[{','.join(map(dump, value))}]"
    if isinstance(value, dict):
        return f'{{"dict":[{",".join(f"[{dump(key)},{dump(item)}]" for key, item in value.items())}]}}'
    return dump_uncommon(value)


def dump_fields(fields: dict[str, Any]) -> str:
    """Return an untagged JSON object with tagged values."""
    return f"{{{','.join(f'{quote(name)}:{dump(value)}' for name, value in fields.items())}}}"


def dump_uncommon(value: Any) -> str:
    """Return the tagged JSON of a value whose type JSON lacks."""
    for kind in COLLECTIONS:
        if isinstance(value, kind):
            return f'{{"{kind.__name__}":[{",".join(map(dump, value))}]}}'
    if isinstance(value, (bytes, bytearray)):
        return f'{{"bytes":"{value.hex()}"}}'
    if isinstance(value, complex):
        return f'{{"complex":[{dump(value.real)},{dump(value.imag)}]}}'
    as_list = getattr(value, "tolist", None)  # arrays and scalars of numpy
    if callable(as_list):
        return dump(as_list())
    kind = type(value)
    return f"{OPAQUE}{quote(f'{kind.__module__}.{kind.__qualname__}')}}}"


def parse(text: str) -> Any:
    """Return the value that `dump` wrote. Raises NotPlainData for an opaque object, and for a malformed text."""
    try:
        return read(make_scanner(ScannerSettings)(text, 0)[0])
    except NotPlainData:
        raise
    except Exception as error:
        raise NotPlainData("an unreadable value") from error


class ScannerSettings:
    """The settings of the JSON scanner, which is imported without `json`: that takes milliseconds."""

    strict, object_hook, object_pairs_hook = True, None, None
    parse_float, parse_int, parse_constant = float, int, float


class NotPlainData(Exception):
    """A value that is not plain data."""


def read(tagged: Any) -> Any:
    """Return the value of tagged JSON."""
    if isinstance(tagged, list):
        return [read(item) for item in tagged]
    if not isinstance(tagged, dict):
        return tagged
    ((tag, content),) = tagged.items()
    for kind in (kind for kind in COLLECTIONS if kind.__name__ == tag):
        return kind(map(read, content))
    if tag == "dict":
        return {read(key): read(item) for key, item in content}
    if tag == "int":
        return int(content, 16)
    if tag == "float":
        return float(content)
    if tag == "bytes":
        return bytes.fromhex(content)
    if tag == "complex":
        return complex(*map(read, content))
    raise NotPlainData(content if tag == "opaque" else "an unreadable value")


class HarnessPipes:
    """The pipes to the gym, separate from the standard streams of the solution."""

    def __init__(self) -> None:
        self._requests, self._replies = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)  # a solution's output serves diagnosis only; it is not an answer

    def receive(self) -> Any:
        """Return the next object from the gym, or None at the end. Reads no byte beyond it."""
        length = int.from_bytes(self._read(8), "big")
        return marshal.loads(self._read(length)) if length else None

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = os.read(self._requests, count - len(data))
            if not chunk:
                return b""
            data += chunk
        return bytes(data)

    def send(self, word: str, payload: str = "null") -> None:
        """Send one line. The payload is JSON."""
        line = f"{word} {payload}\n".encode()
        while line:
            line = line[os.write(self._replies, line) :]

    def close(self) -> None:
        """Close both pipes."""
        for end in (self._requests, self._replies):
            os.close(end)


def describe(error: BaseException) -> list[str]:
    """Return the name of an exception's type and its message; "" where its `__str__` fails."""
    try:
        message = str(error)[:LONGEST_MESSAGE]
    except BaseException:
        message = ""
    return [type(error).__name__, message]


def compile_first(sources: list[str]) -> CodeType:
    """Return the code of the first source that compiles. Raises the first source's error where none does."""
    failure: BaseException | None = None
    for source in sources:
        try:
            return compile(source, "<solution>", "exec", dont_inherit=True)
        except BaseException as error:
            failure = failure or error
    assert failure is not None
    raise failure


def load(code: CodeType, name: str) -> ModuleType:
    """Execute `code` in a new module of the given name and return the module."""
    module = type(sys)(name)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module


def play_calls(channel: HarnessPipes, job: dict[str, Any]) -> None:
    """Run the part `calls`. Requests are a function, which a class `Solution` may hold, and its arguments as JSON."""
    try:
        module = load(compile_first(job["sources"]), "solution")
    except BaseException as error:
        channel.send("failed", dump(describe(error)))
        return
    channel.send("loaded")
    while (request := channel.receive()) is not None:
        channel.send(*answer_call(module, *request))


def answer_call(module: ModuleType, name: str, arguments: bytes) -> tuple[str, str]:
    """Call the solution's function and return its result or its exception."""
    args, kwargs = parse(arguments.decode())
    try:
        function = getattr(module, name, None)
        if function is None and hasattr(module, "Solution"):
            function = getattr(module.Solution(), name, None)
        if function is None:
            return "undefined", "null"
        return "value", dump(function(*args, **kwargs))
    except BaseException as error:
        return "raised", dump(describe(error))


def play_programs(channel: HarnessPipes, job: dict[str, Any]) -> CodeType | None:
    """Run the part `programs`. Requests are inputs. Returns the code to run in each fork, and None in the parent."""
    try:
        code = compile_first(job["sources"])
    except BaseException as error:
        channel.send("failed", dump(describe(error)))
        return None
    channel.send("loaded")
    while (given := channel.receive()) is not None:
        streams = [open_unnamed_file() for _ in range(3)]
        os.write(streams[0], given)
        os.lseek(streams[0], 0, os.SEEK_SET)
        child = os.fork()
        if child == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            channel.close()
            return code
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        stdout, stderr = (read_printed(stream, job["output_bytes"]) for stream in streams[1:])
        for stream in streams:
            os.close(stream)
        said = (stderr or "")[-LONGEST_MESSAGE:]
        channel.send("program", dump_fields({"status": status, "stdout": stdout, "stderr": said}))
    return None


def open_unnamed_file() -> int:
    """Open a new file that has no name."""
    stream = os.open("stream", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink("stream")  # noqa: PTH108 - pathlib takes milliseconds to import
    return stream


def read_printed(stream: int, most: int) -> str | None:
    """Return the output; None when it exceeds `most` bytes."""
    data = os.pread(stream, most + 1, 0)
    return None if len(data) > most else data.decode(errors="replace")


class CandidateError(Exception):
    """An exception of the solution that is not a built-in one."""


class Candidate:
    """The solution's function as the tests see it: another sandbox answers every call."""

    def __init__(self, channel: HarnessPipes, name: str, expected: frozenset[str]) -> None:
        self._channel, self._expected = channel, expected
        self.__name__ = name
        self.not_plain: NotPlainData | None = None
        """Set when the solution returns something else than plain data. The tests cannot pass then."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments = dump([list(args), kwargs])
        if OPAQUE in arguments:
            self._channel.send("unplain", arguments[arguments.index(OPAQUE) + len(OPAQUE) :].split("}")[0])
            raise SystemExit("the tests pass on something else than plain data")
        self._channel.send("call", arguments)
        answer = self._channel.receive()
        if answer is None:
            raise SystemExit("the gym closed the connection")
        word, payload = answer
        try:
            value = parse(payload.decode())
        except NotPlainData as error:
            self.not_plain = error
            raise
        if word == "raised":
            raise error_named(*value, expected=self._expected)
        return value


def is_error(kind: type[BaseException]) -> bool:
    """Return whether exceptions of `kind` are errors, and not the end of an iteration or of a program."""
    return issubclass(kind, Exception) and not issubclass(kind, ITERATION_ENDS)


def error_named(name: str, message: str, *, expected: frozenset[str] = frozenset()) -> BaseException:
    """Return the built-in exception of that name, or a CandidateError.

    Python takes some exceptions for the end of an iteration or of a program. A `map` in the tests would end early and
    silently by them, so only tests that name them, among `expected`, get them as they are.
    """
    kind = getattr(sys.modules["builtins"], name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException) and (name in expected or is_error(kind)):
        try:
            return kind(message)
        except TypeError:  # its constructor takes other arguments, as UnicodeDecodeError's does
            pass
    return CandidateError(f"{name}: {message}")


def play_tests(channel: HarnessPipes, job: dict[str, Any]) -> None:
    """Run the part `tests`: first `context` (helpers), then the tests, which may define `check`."""
    try:
        context = compile(job["context"], "<context>", "exec", dont_inherit=True)
        tests = compile(job["tests"], "<tests>", "exec", dont_inherit=True)
        candidate = Candidate(channel, job["entry_point"], find_names(context) | find_names(tests))
        module = load(context, "tests")
    except BaseException as error:
        channel.send("broken", dump(describe(error)))
        return
    setattr(module, job["entry_point"], candidate)
    verdict = run_for_verdict(lambda: run_check(module, tests, candidate))
    if candidate.not_plain is not None:
        verdict = {"not_plain": str(candidate.not_plain)}
    channel.send("verdict", dump_fields(verdict))


def play_together(channel: HarnessPipes, job: dict[str, Any]) -> None:
    """Run the part `together`: solution and tests in one module. The proof is read only after the tests end."""
    try:
        tests = compile(job["tests"], "<tests>", "exec", dont_inherit=True)
    except BaseException as error:
        channel.send("broken", dump(describe(error)))
        return
    channel.send("compiled")
    guard = make_guard(job["guard"], find_names(tests))
    try:
        module = load(compile_first(job["sources"]), "solution")
    except BaseException as error:
        channel.send("failed", dump(describe(error)))
        return
    candidate = getattr(module, job["entry_point"], None)
    if candidate is None:
        channel.send("undefined")
        return
    guard.disarm_all()
    if callable(candidate):
        candidate = guard.wrap(candidate)
        setattr(module, job["entry_point"], candidate)
    run = guard.run_unittest if job["style"] == "unittest" else run_check
    verdict = run_for_verdict(lambda: run(module, tests, candidate))
    if guard.refused:
        verdict = {"passed": False, "not_plain": guard.refused}
    if verdict["passed"]:
        verdict.update(channel.receive())
    channel.send("verdict", dump_fields(verdict))


def find_names(code: CodeType) -> frozenset[str]:
    """Return the names of variables and attributes in a program, without those of its functions' own variables."""
    inner = [const for const in code.co_consts if isinstance(const, type(code))]
    return frozenset(code.co_names).union(*map(find_names, inner))


def make_guard(source: str, expected: frozenset[str]) -> Any:
    """Make the guard of `_code_guard`, whose source comes with the job, in a namespace of its own."""
    namespace: dict[str, Any] = {"__name__": "guard"}
    exec(compile(source, "<guard>", "exec"), namespace)
    return namespace["Guard"](expected)


def run_for_verdict(run: Callable[[], None]) -> dict[str, Any]:
    """Run the tests and return their verdict."""
    try:
        run()
    except BaseException as error:
        name, message = describe(error)
        return {"passed": False, "why": f"{name}: {message}".rstrip(": "), "line": find_line(error)}
    return {"passed": True}


def run_check(module: ModuleType, tests: CodeType, candidate: object) -> None:
    """Execute the tests, and call `check` if they define it."""
    exec(tests, module.__dict__)
    if "random" in sys.modules:
        sys.modules["random"].seed(0)  # the same inputs on every verification
    check = module.__dict__.get("check")
    if check is not None:
        check(candidate)


def find_line(error: BaseException) -> int | None:
    """Return the line of the tests that raised `error`."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def main() -> CodeType | None:
    """Run one part. Returns code only in a fork, which then runs the solution's program."""
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
    for name in ("exit", "quit"):  # an interpreter without `site` lacks both
        sys.modules["builtins"].__dict__.setdefault(name, sys.exit)
    channel = HarnessPipes()
    channel.send("ready")
    job = channel.receive()
    if job is None:
        return None
    if job["part"] == "programs":
        return play_programs(channel, job)
    {"calls": play_calls, "tests": play_tests, "together": play_together}[job["part"]](channel, job)
    return None


if __name__ == "__main__":
    program = main()
    if program is not None:
        sys.argv[:] = ["solution.py"]
        sys.modules["__main__"] = type(sys)("__main__")
        exec(program, sys.modules["__main__"].__dict__)
