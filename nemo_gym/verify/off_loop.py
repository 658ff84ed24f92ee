"""`@off_loop`: a synchronous function that computes becomes an asynchronous one that doesn't block the loop.

    @off_loop(timeout_s=5)
    def score(answer: str, expected: str) -> float: ...

    reward = await score(answer, expected)      # in a worker process, killed after five seconds
    reward = score.off_loop_function(answer, expected)   # here and now, for tests and scripts

Keep such functions in a module of their own beside the server's `app.py`: a worker imports the module that
defines the function, and `app.py` brings a web framework with it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class OffLoopFunction(Generic[P, R]):
    """Called, it runs `off_loop_function` in a worker of the default pool and gives its result.

    Raises what `WorkerPool.run` raises: `VerifierError` for a deadline, a crash or an exception.
    """

    off_loop_function: Callable[P, R]
    """The function itself, to call it synchronously."""
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
        # Imported on the first call, because workers import this module and need no event loop.
        from nemo_gym.processes.workers import default_pool

        return await default_pool().submit(
            self.off_loop_function, args, kwargs, timeout_s=self.timeout_s, imports=self._imports
        )


def off_loop(
    *, timeout_s: float, imports: tuple[str, ...] = ()
) -> Callable[[Callable[P, R]], OffLoopFunction[P, R]]:
    """Run the decorated module-level function in the default worker pool, for at most `timeout_s` seconds.

    `imports` names modules that the function imports lazily: a worker imports them before the function's time
    starts to count.
    """

    def decorate(function: Callable[P, R]) -> OffLoopFunction[P, R]:
        return OffLoopFunction(function, timeout_s, imports)

    return decorate
