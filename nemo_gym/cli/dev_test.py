"""`ng_dev_test`: run the gym's own tests, in a checkout."""

from __future__ import annotations

import subprocess
import sys

from pydantic import Field

from nemo_gym import PARENT_DIR
from nemo_gym.cli.command import Command, ExitCode, Keys
from nemo_gym.failures import ConfigError


class DevTestKeys(Keys):
    pytest_args: list[str] = Field(default_factory=list, description="Arguments for pytest.")


COMMAND = Command(
    name="ng_dev_test",
    summary="Run the gym's own tests, in a checkout with the extra `dev`.",
    example="ng_dev_test '+pytest_args=[tests/test_paths.py]'",
    keys=DevTestKeys,
    exit_codes={ExitCode.COMPLETE: "every test passed", ExitCode.FATAL: "a test failed", 2: "wrong usage"},
)


def run_own_tests(keys: DevTestKeys) -> int:
    if not (PARENT_DIR / "tests").is_dir():
        raise ConfigError(
            f"{PARENT_DIR} has no tests",
            code="no_checkout",
            remedy="Run the command in a checkout of the repository.",
        )
    done = subprocess.run([sys.executable, "-m", "pytest", *keys.pytest_args], cwd=PARENT_DIR, check=False)
    return ExitCode.FATAL if done.returncode else ExitCode.COMPLETE


main = COMMAND.entry_point(run_own_tests)
