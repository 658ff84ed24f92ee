"""The main loop of a worker: loading modules and answering jobs over its socket."""

from __future__ import annotations

import pickle
import socket
import sys
from pathlib import Path

import pytest

from nemo_gym.processes import messages, worker_main


def answers_to(function: str, *args: object) -> list[tuple[str, object]]:
    """All messages of a worker for one job of the module `math`."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        worker_main._serve(theirs, "math", function, None, (), pickle.dumps((args, {})))
        theirs.shutdown(socket.SHUT_WR)
        received = []
        while True:
            try:
                received.append(messages.receive(ours))
            except EOFError:
                return received


def test_a_job_reports_its_start_and_its_result() -> None:
    started, returned = answers_to("sqrt", 16.0)
    assert started[0] == worker_main.STARTED
    assert returned == (worker_main.RETURNED, 4.0)


def test_an_exception_is_reported_with_its_traceback() -> None:
    _, (kind, body) = answers_to("sqrt", -1.0)
    assert kind == worker_main.RAISED
    assert isinstance(body, tuple)
    assert body[0].startswith("ValueError")
    assert body[1].startswith("Traceback")


def test_a_missing_function_is_reported_before_a_start() -> None:
    ((kind, _),) = answers_to("no_such_function")
    assert kind == worker_main.RAISED


def test_a_module_outside_the_import_path_is_loaded_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "outside_the_path.py"
    file.write_text("VALUE = 3\n")
    try:
        assert worker_main.load_module("outside_the_path", str(file)).VALUE == 3
    finally:
        sys.modules.pop("outside_the_path", None)
    with pytest.raises(ModuleNotFoundError):
        worker_main.load_module("outside_the_path", None)


def test_a_missing_import_of_a_module_is_not_mistaken_for_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports_a_missing_one.py").write_text("import a_module_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_missing"):
        worker_main.load_module("imports_a_missing_one", str(tmp_path / "imports_a_missing_one.py"))


def test_a_file_that_fails_to_load_leaves_no_module(tmp_path: Path) -> None:
    file = tmp_path / "fails_to_load.py"
    file.write_text("raise RuntimeError('broken')\n")
    with pytest.raises(RuntimeError, match="broken"):
        worker_main.load_module("fails_to_load", str(file))
    assert "fails_to_load" not in sys.modules
