"""The program that runs `tests/verifier.py` in a sandbox, in the place of a `test.sh`. It needs Python 3.8 there.

`verify` of that file takes any of `workspace`, `task_data`, `response` and `state` by name, may be async, and returns a
number or a dict with `reward`. The interpreter of the image gets this file, so it imports the standard library only.
"""

import asyncio
import importlib.util
import inspect
import json
import sys
from pathlib import Path
from typing import Awaitable  # noqa: UP035 - for Python 3.8

REWARD = "/logs/verifier/reward.json"


def run(folder: Path, workspace: Path) -> None:
    """Run a `verifier.py` and write its reward."""
    spec = importlib.util.spec_from_file_location("verifier", folder / "verifier.py")
    assert spec is not None
    assert spec.loader is not None
    sys.path.insert(0, str(folder))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given_file = folder / ".ng" / "given.json"
    given = json.loads(given_file.read_text(encoding="utf-8")) if given_file.exists() else {}
    known = {"workspace": workspace, "task_data": {}, "response": {}, "state": {}, **given}
    wanted = inspect.signature(module.verify).parameters
    result = module.verify(**{name: value for name, value in known.items() if name in wanted})
    if inspect.isawaitable(result):
        result = asyncio.run(wait_for(result))
    rewards = result if isinstance(result, dict) else {"reward": result}
    Path(REWARD).write_text(json.dumps(rewards), encoding="utf-8")


async def wait_for(result: Awaitable[object]) -> object:
    return await result


if __name__ == "__main__":
    run(Path(__file__).resolve().parent.parent, Path.cwd())
