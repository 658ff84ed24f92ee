"""One worker process: a call, its deadline, and its end."""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Iterator

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.processes import messages, worker_main
from nemo_gym.processes._worker import Worker
from nemo_gym.processes.fork_server import ForkServer
from tests.waiting import until


@pytest.fixture
def worker() -> Iterator[Worker]:
    with contextlib.closing(ForkServer(worker_main.__name__)) as server:
        made = Worker(server, (list(sys.path), None, ()))
        yield made
        made.end()


def job(module: str, function: str, *args: object) -> bytes:
    return messages.frame((module, function, None, (), pickle.dumps((args, {}))))


async def test_a_call_returns_its_result_and_the_worker_stays_alive(worker: Worker) -> None:
    assert worker.pid is None
    assert await worker.call(job("math", "sqrt", 9.0), "sqrt", 60.0) == (worker_main.RETURNED, 3.0)
    assert worker.pid is not None
    assert worker.is_alive()


async def test_a_call_over_its_deadline_fails(worker: Worker) -> None:
    with pytest.raises(VerifierError, match=r"ran over its deadline of 0\.1 s") as caught:
        await worker.call(job("time", "sleep", 60), "sleep", 0.1)
    assert caught.value.failure.code == "verifier_blocked"


async def test_a_computing_call_over_its_deadline_fails(worker: Worker) -> None:
    endless = job("re", "fullmatch", "(a+)+", "a" * 50 + "b")
    with pytest.raises(VerifierError, match=r"of CPU time") as caught:
        await worker.call(endless, "fullmatch", 0.3)
    assert caught.value.failure.code == "verifier_timeout"


async def test_a_killed_worker_is_not_alive_and_its_call_names_the_signal(worker: Worker) -> None:
    worker.kill()
    await until(lambda: not worker.is_alive())
    with pytest.raises(VerifierError, match="SIGKILL") as caught:
        await worker.call(job("math", "sqrt", 9.0), "sqrt", 60.0)
    assert caught.value.failure.code == "verifier_crashed"
