"""`ng_test_all`: run the tests of every environment, agent and model."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, tell
from nemo_gym.cli.test import COMMAND as TEST
from nemo_gym.cli.test import describe
from nemo_gym.names import ServerKind

if TYPE_CHECKING:
    from nemo_gym.authoring.implementations import Implementation
    from nemo_gym.authoring.suites import SuiteResult


class TestAllKeys(Keys):
    __test__ = False

    kind: ServerKind | None = Field(None, description="Only implementations of this kind.")
    jobs: int = Field(1, ge=1, description="Suites run at once.")
    pytest_args: list[str] = Field(
        default_factory=list,
        description='Additional arguments for pytest, each in quotes: \'+pytest_args=["-x","--tb=short"]\'.',
    )
    as_json: bool = Field(False, alias="json", description="Print the results as JSON.")


COMMAND = Command(
    name="ng_test_all",
    summary="Run the tests of every environment, agent and model, each with its requirements.",
    example="ng_test_all +jobs=2",
    keys=TestAllKeys,
    exit_codes={**TEST.exit_codes, ExitCode.FATAL: "a test failed, or an environment could not be built"},
)


def run_all_tests(keys: TestAllKeys) -> int:
    from nemo_gym.authoring.implementations import find_implementations
    from nemo_gym.authoring.suites import Verdict

    results = []
    for result in _run(find_implementations(Path.cwd(), keys.kind), keys):
        print(describe(result), file=sys.stderr, flush=True)
        if result.verdict is Verdict.FAILED:
            print(result.output, file=sys.stderr, flush=True)
        results.append(result)
    of_verdict = {verdict: [each for each in results if each.verdict is verdict] for verdict in Verdict}
    if keys.as_json:
        print(json.dumps([_dump_result(result) for result in results], indent=2))
    else:
        print(", ".join(f"{len(found)} {verdict}" for verdict, found in of_verdict.items() if found))
        for result in of_verdict[Verdict.FAILED]:
            print(f"failed: {result.implementation.entrypoint}")
    return ExitCode.FATAL if of_verdict[Verdict.FAILED] else ExitCode.COMPLETE


def _run(implementations: Sequence[Implementation], keys: TestAllKeys) -> Iterator[SuiteResult]:
    """Yield the results in the order of the implementations."""
    from nemo_gym.authoring.suites import SuiteResult, Verdict, run_suite
    from nemo_gym.launch.environments import Environments
    from nemo_gym.launch.errors import LaunchError

    environments = Environments(tell)

    def run(implementation: Implementation) -> SuiteResult:
        try:
            return run_suite(implementation, environments, pytest_args=keys.pytest_args, shows_output=False)
        except LaunchError as error:  # one failed installation must not hide other results
            return SuiteResult(implementation, Verdict.FAILED, output=str(error))

    with ThreadPoolExecutor(keys.jobs) as pool:
        yield from pool.map(run, implementations)


def _dump_result(result: SuiteResult) -> dict[str, Any]:
    return {
        "entrypoint": result.implementation.entrypoint,
        "verdict": result.verdict.value,
        "seconds": round(result.seconds, 3),
        "passed": result.passed,
        "failed": result.failed,
        "skipped": result.skipped,
    }


main = COMMAND.entry_point(run_all_tests)
