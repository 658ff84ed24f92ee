"""`ng_test`: run the tests of environments, agents and models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym import PARENT_DIR
from nemo_gym.cli.command import Command, ExitCode, Keys, several, tell

if TYPE_CHECKING:
    from nemo_gym.authoring.implementations import Implementation
    from nemo_gym.authoring.suites import SuiteResult


class TestKeys(Keys):
    __test__ = False

    entrypoint: str | list[str] = Field(description="One or more implementations: resources_servers/<name>.")
    gold: bool = Field(
        True, description="Also attempt the example tasks with the right replies of data/example_gold.yaml."
    )
    pytest_args: list[str] = Field(
        default_factory=list,
        description='Additional arguments for pytest, each in quotes: \'+pytest_args=["-x","--tb=short"]\'.',
    )


COMMAND = Command(
    name="ng_test",
    summary="Run the tests of an environment, an agent or a model, and play an environment's gold.",
    example="ng_test +entrypoint=resources_servers/my_environment",
    keys=TestKeys,
    exit_codes={
        ExitCode.COMPLETE: "every test passed, and gold has the best reward",
        ExitCode.FATAL: "a test failed, there are no tests, gold has another reward, or their environment could not be "
        "built",
        ExitCode.BAD_INPUT: "wrong usage",
        ExitCode.INTERRUPTED: "interrupted",
    },
)


def run_tests(keys: TestKeys) -> int:
    from nemo_gym.authoring.implementations import find_implementation
    from nemo_gym.authoring.suites import Verdict, run_suite
    from nemo_gym.launch.environments import Environments

    implementations = [find_implementation(name, Path.cwd()) for name in several(keys.entrypoint)]
    environments = Environments(tell)
    results = [run_suite(each, environments, pytest_args=keys.pytest_args) for each in implementations]
    for result in results:
        print(describe(result), flush=True)
    is_green = all(result.verdict is Verdict.PASSED for result in results)
    played = [_play(each) for each in implementations if keys.gold]
    return ExitCode.COMPLETE if is_green and all(played) else ExitCode.FATAL


def _play(implementation: Implementation) -> bool:
    """Play the gold of an environment, print the result, and return whether it is the best."""
    from nemo_gym.authoring.gold import find_gold, play_gold

    script = find_gold(implementation)
    if script is None:
        return True
    result = play_gold(implementation, script, COMMAND.shown_name)
    print(result.describe(), flush=True)
    return result.is_best


def describe(result: SuiteResult) -> str:
    """Return the result of a suite as one line."""
    implementation = result.implementation
    if not implementation.has_tests:
        only = (
            " (tests of built-in servers are only in a checkout)" if implementation.root == PARENT_DIR else ""
        )
        return f"{implementation.entrypoint}: no tests in {implementation.tests}{only}"
    counts = {"passed": result.passed, "failed": result.failed, "skipped": result.skipped}
    counted = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    verdict = f"{result.verdict} ({counted})" if counted else str(result.verdict)
    return f"{implementation.entrypoint}: {verdict} in {result.seconds:.1f} s"


main = COMMAND.entry_point(run_tests)
