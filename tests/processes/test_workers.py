"""Worker pools. The jobs are functions of the standard library, so that workers start in milliseconds."""

import asyncio
import math
import operator
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
import uvloop

from nemo_gym.failures import InputError, VerifierError
from nemo_gym.processes import workers
from nemo_gym.processes.workers import RemoteTraceback, WorkerPool, default_pool
from tests.waiting import until_gone

TIMEOUT_S = 60.0


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(2)
    yield pool
    await pool.close()


def code_of(caught: pytest.ExceptionInfo[VerifierError]) -> str:
    return caught.value.failure.code


def load(source: Path, name: str) -> Callable[..., Any]:
    """Load the function `name` from a file outside the import path."""
    spec = spec_from_file_location("tests_of_workers_loaded_by_path", source)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., Any] = getattr(module, name)
    return function


async def test_a_job_runs_in_another_process_and_gives_its_result(pool: WorkerPool) -> None:
    assert await pool.run(os.getpid, timeout_s=TIMEOUT_S) != os.getpid()
    assert await pool.run(math.comb, 10, 3, timeout_s=TIMEOUT_S) == 120


async def test_workers_stay_warm_between_jobs(pool: WorkerPool) -> None:
    first = await pool.run(os.getpid, timeout_s=TIMEOUT_S)
    assert await pool.run(os.getpid, timeout_s=TIMEOUT_S) == first
    assert pool.stats.workers == 1


async def test_large_arguments_and_results_arrive_whole(pool: WorkerPool) -> None:
    text = "αβγ" * 1_000_000
    assert await pool.run(operator.concat, text, "!", timeout_s=TIMEOUT_S) == text + "!"


async def test_jobs_run_concurrently_and_others_queue(pool: WorkerPool) -> None:
    await pool.start()
    jobs = [asyncio.create_task(pool.run(time.sleep, 0.1, timeout_s=TIMEOUT_S)) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert (pool.stats.busy, pool.stats.queued) == (2, 3)
    await asyncio.gather(*jobs)
    stats = pool.stats
    assert (stats.busy, stats.queued, stats.peak_busy, stats.peak_queued) == (0, 0, 2, 3)
    assert stats.completed == 5 + pool.size


async def test_a_job_over_its_deadline_is_killed_even_if_it_holds_the_gil(
    pool: WorkerPool,
) -> None:
    pid = await pool.run(os.getpid, timeout_s=TIMEOUT_S)
    with pytest.raises(VerifierError, match=r"deadline of 0\.2 s") as caught:
        await pool.run(re.fullmatch, "(a+)+", "a" * 50 + "b", timeout_s=0.2)
    assert code_of(caught) == "verifier_timeout"
    await until_gone(pid)
    assert await pool.run(os.getpid, timeout_s=TIMEOUT_S) != pid
    assert pool.stats.killed == 1


async def test_waiting_in_the_queue_does_not_count_as_the_jobs_time() -> None:
    pool = WorkerPool(1)
    await pool.start()
    first = asyncio.create_task(pool.run(time.sleep, 2.5, timeout_s=TIMEOUT_S))
    await asyncio.sleep(0)
    assert await pool.run(abs, -1, timeout_s=2.0) == 1
    await first
    await pool.close()


async def test_the_deadline_also_kills_the_jobs_children(pool: WorkerPool, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000"]
    with pytest.raises(VerifierError):
        await pool.run(subprocess.check_call, command, timeout_s=3.0)
    await until_gone(int(pid_file.read_text()))


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (signal.raise_signal, signal.SIGSEGV, "SIGSEGV ended it"),
        (os._exit, 0, "it exited with status 0"),
        (os._exit, 3, "it exited with status 3"),
    ],
)
async def test_a_crash_fails_its_own_job_only(
    pool: WorkerPool, function: Callable[[int], None], argument: int, reason: str
) -> None:
    await pool.start()
    neighbour = asyncio.create_task(pool.run(time.sleep, 0.3, timeout_s=TIMEOUT_S))
    with pytest.raises(VerifierError, match=reason) as caught:
        await pool.run(function, argument, timeout_s=TIMEOUT_S)
    assert code_of(caught) == "verifier_crashed"
    await neighbour
    assert pool.stats.crashed == 1
    assert pool.stats.workers == 2


async def test_a_worker_over_its_memory_limit_crashes() -> None:
    pool = WorkerPool(1, memory_limit_bytes=512 * 1024**2)
    with pytest.raises(VerifierError, match="out of memory") as caught:
        await pool.run(bytearray, 1024**3, timeout_s=TIMEOUT_S)
    assert code_of(caught) == "verifier_out_of_memory"
    assert len(await pool.run(bytearray, 1024**2, timeout_s=TIMEOUT_S)) == 1024**2
    await pool.close()


def allocate(size: int) -> int:
    return len(bytearray(size))


async def test_workers_have_a_memory_limit_by_default(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError, match="out of memory"):
        await pool.run(bytearray, 5 << 30, timeout_s=TIMEOUT_S)


async def test_the_largest_requested_limit_counts_for_shared_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_default_pools", [])
    monkeypatch.setattr(workers, "_requested_memory", [])
    for limit_bytes in (300 << 20, 600 << 20):
        workers.request_memory(limit_bytes)
    pool = default_pool()
    assert await pool.run(allocate, 400 << 20, timeout_s=TIMEOUT_S) == 400 << 20
    with pytest.raises(VerifierError, match="out of memory"):
        await pool.run(allocate, 700 << 20, timeout_s=TIMEOUT_S)
    await pool.close()


async def test_a_worker_that_died_while_idle_is_replaced_without_a_failure(pool: WorkerPool) -> None:
    pid = await pool.run(os.getpid, timeout_s=TIMEOUT_S)
    os.kill(pid, signal.SIGKILL)
    await until_gone(pid)
    assert await pool.run(os.getpid, timeout_s=TIMEOUT_S) != pid


async def test_an_exception_names_itself_and_brings_its_traceback(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError, match="truediv raised ZeroDivisionError: division by zero") as caught:
        await pool.run(operator.truediv, 1, 0, timeout_s=TIMEOUT_S)
    assert code_of(caught) == "verifier_raised"
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "Traceback (most recent call last)" in str(caught.value.__cause__)


async def test_leaving_the_interpreter_is_an_exception_like_any_other(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError, match="SystemExit: 4") as caught:
        await pool.run(sys.exit, 4, timeout_s=TIMEOUT_S)
    assert code_of(caught) == "verifier_raised"


async def test_a_gym_error_is_raised_unchanged(pool: WorkerPool, tmp_path: Path) -> None:
    source = tmp_path / "refusing_job.py"
    source.write_text(
        "from nemo_gym.failures import InputError\n"
        "def refuse():\n    raise InputError('no options', code='bad_row', param='options')\n"
    )
    with pytest.raises(InputError, match="no options") as caught:
        await pool.run(load(source, "refuse"), timeout_s=TIMEOUT_S)
    assert caught.value.failure.param == "options"


async def test_an_unpicklable_value_is_named(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError, match="arguments of len cannot be sent"):
        await pool.run(len, (lambda: None,), timeout_s=TIMEOUT_S)
    with pytest.raises(VerifierError, match=r"raised .*pickle"):
        await pool.run(open, os.devnull, timeout_s=TIMEOUT_S)


async def test_a_function_that_no_worker_can_import_is_refused_at_once(pool: WorkerPool) -> None:
    with pytest.raises(TypeError, match="cannot import"):
        await pool.run(lambda: 1, timeout_s=TIMEOUT_S)
    assert pool.stats.workers == 0


async def test_a_function_of_a_file_on_no_import_path_is_loaded_from_the_file(
    pool: WorkerPool, tmp_path: Path
) -> None:
    source = tmp_path / "somewhere.py"
    source.write_text("def double(x):\n    return 2 * x\n")
    assert await pool.run(load(source, "double"), 21, timeout_s=TIMEOUT_S) == 42


def test_a_script_can_run_its_own_functions_and_classes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import asyncio, dataclasses\n"
        "from nemo_gym.processes.workers import default_pool\n"
        "@dataclasses.dataclass\n"
        "class Point:\n    x: int\n"
        "def move(point):\n    return Point(point.x + 1)\n"
        "if __name__ == '__main__':\n"
        "    print(asyncio.run(default_pool().run(move, Point(1), timeout_s=60)).x)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


async def test_a_worker_imports_no_web_framework(pool: WorkerPool) -> None:
    heavy = "set(__import__('sys').modules) & {'fastapi', 'aiohttp', 'pydantic', 'asyncio', 'numpy'}"
    assert await pool.run(eval, heavy, timeout_s=TIMEOUT_S) == set()


async def test_every_worker_and_its_successors_import_what_jobs_need(pool: WorkerPool) -> None:
    await pool.start(imports=["colorsys"])
    with pytest.raises(VerifierError):
        await pool.run(os._exit, 1, timeout_s=TIMEOUT_S)
    jobs = [pool.run(eval, "'colorsys' in __import__('sys').modules", timeout_s=TIMEOUT_S) for _ in range(2)]
    assert await asyncio.gather(*jobs) == [True, True]


async def test_a_module_that_is_missing_fails_the_job_that_needs_it(pool: WorkerPool) -> None:
    with pytest.raises(VerifierError, match="No module named 'no_such_module'"):
        await pool.run(abs, 1, timeout_s=TIMEOUT_S, imports=["no_such_module"])


async def test_a_cancelled_call_leaves_no_job(pool: WorkerPool) -> None:
    pid = await pool.run(os.getpid, timeout_s=TIMEOUT_S)
    job = asyncio.create_task(pool.run(time.sleep, 1000, timeout_s=TIMEOUT_S))
    await asyncio.sleep(0.05)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    await until_gone(pid)
    assert (pool.stats.busy, pool.stats.killed) == (0, 1)


async def test_a_full_queue_refuses_with_a_retryable_failure() -> None:
    pool = WorkerPool(1, max_queued=1)
    await pool.start()
    jobs = [asyncio.create_task(pool.run(time.sleep, 0.1, timeout_s=TIMEOUT_S)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(VerifierError, match="busy and 1 jobs are queued") as caught:
        await pool.run(abs, 1, timeout_s=TIMEOUT_S)
    assert (code_of(caught), caught.value.failure.retryable) == ("verifier_overloaded", True)
    assert caught.value.failure.http_status == 503
    await asyncio.gather(*jobs)
    await pool.close()


async def test_closing_ends_workers_and_fails_jobs_under_way_and_waiting() -> None:
    pool = WorkerPool(1)
    pid = await pool.run(os.getpid, timeout_s=TIMEOUT_S)
    jobs = [asyncio.create_task(pool.run(time.sleep, 1000, timeout_s=TIMEOUT_S)) for _ in range(2)]
    await asyncio.sleep(0.05)
    await pool.close()
    for job in jobs:
        with pytest.raises(VerifierError) as caught:
            await job
        assert code_of(caught) == "verifier_closed"
    await until_gone(pid)
    assert pool.stats.workers == 0
    await pool.close()


def test_idle_workers_outlive_an_event_loop() -> None:
    pool = WorkerPool(1)
    pids = [asyncio.run(pool.run(os.getpid, timeout_s=TIMEOUT_S)) for _ in range(2)]
    assert pids[0] == pids[1]
    asyncio.run(pool.close())


def test_deadlines_crashes_and_closing_work_on_uvloop_too() -> None:
    async def scenario() -> None:
        pool = WorkerPool(2)
        with pytest.raises(VerifierError, match="deadline"):
            await pool.run(re.fullmatch, "(a+)+", "a" * 50 + "b", timeout_s=0.2)
        with pytest.raises(VerifierError, match="exited with status 1"):
            await pool.run(os._exit, 1, timeout_s=TIMEOUT_S)
        job = asyncio.create_task(pool.run(time.sleep, 1000, timeout_s=TIMEOUT_S))
        await asyncio.sleep(0.05)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert await pool.run(abs, -1, timeout_s=TIMEOUT_S) == 1
        await pool.close()

    uvloop.run(scenario())


async def test_two_event_loops_at_once_are_refused(pool: WorkerPool) -> None:
    job = asyncio.create_task(pool.run(time.sleep, 0.2, timeout_s=TIMEOUT_S))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(pool.run(abs, 1, timeout_s=TIMEOUT_S)))
    await job


@pytest.mark.parametrize("last_words", ["pass", "os.kill(os.getpid(), 9)", "os._exit(0)"])
async def test_workers_die_with_their_parent_even_while_busy(tmp_path: Path, last_words: str) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, os, re\n"
        "from nemo_gym.processes.workers import WorkerPool\n"
        "async def main():\n"
        "    pool = WorkerPool(1)\n"
        "    print(await pool.run(os.getpid, timeout_s=60), flush=True)\n"
        "    job = asyncio.create_task(pool.run(re.fullmatch, '(a+)+', 'a' * 60 + 'b', timeout_s=60))\n"
        "    await asyncio.sleep(0.2)\n"
        f"    {last_words}\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, script, stdout=asyncio.subprocess.PIPE)
    output, _ = await parent.communicate()
    await until_gone(int(output))


async def test_the_default_pool_is_shared_by_loops_that_follow_each_other_but_not_by_two_at_once() -> None:
    async def pid_of_worker() -> tuple[WorkerPool, int]:
        return default_pool(), await default_pool().run(os.getpid, timeout_s=TIMEOUT_S)

    own = await pid_of_worker()
    others = [await asyncio.to_thread(lambda: asyncio.run(pid_of_worker())) for _ in range(2)]
    assert own[0] is default_pool()
    assert others[0] == others[1] != own
    await others[0][0].close()


async def test_a_closed_default_pool_is_replaced() -> None:
    first = default_pool()
    await first.close()
    assert default_pool() is not first
