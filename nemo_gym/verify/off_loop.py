"""`@off_loop` turns a synchronous function into an asynchronous one that runs in a worker process.

    @off_loop(timeout_s=5)
    def score(answer: str, expected: str) -> float: ...

    reward = await score(answer, expected)      # in a worker process, killed after five seconds
    reward = score.off_loop_function(answer, expected)   # in this process, for tests and scripts

Put such functions in their own module beside the server's `app.py`: a worker imports the module that defines the
function, and `app.py` imports a web framework.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

__all__ = ["off_loop"]

P = ParamSpec("P")
R = TypeVar("R")


class OffLoopFunction(Generic[P, R]):
    """A callable that runs `off_loop_function` in a worker of the default pool and returns its result.

    Raises `VerifierError` for an expired deadline, a crash or an exception, as `WorkerPool.run` does.
    """

    off_loop_function: Callable[P, R]
    """The undecorated function, for synchronous calls."""
    timeout_s: float

    def __init__(self, function: Callable[P, R], timeout_s: float, imports: tuple[str, ...]) -> None:
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"@off_loop is for synchronous functions; {function.__qualname__} is asynchronous."
            )
        functools.update_wrapper(self, function)
        self.off_loop_function = function
        self.timeout_s = timeout_s
        self._imports = imports

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        # Imported on the first call, because workers import this module and do not need the event loop.
        from nemo_gym.processes.workers import default_pool

        return await default_pool().submit(
            self.off_loop_function, args, kwargs, timeout_s=self.timeout_s, imports=self._imports
        )


def off_loop(
    *, timeout_s: float, imports: tuple[str, ...] = ()
) -> Callable[[Callable[P, R]], OffLoopFunction[P, R]]:
    """Run the decorated module-level function in the default worker pool, for at most `timeout_s` seconds.

    `imports` names modules that the function imports lazily: a worker imports them before the time limit starts.
    """
    return lambda function: OffLoopFunction(function, timeout_s, imports)
