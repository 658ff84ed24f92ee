"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from nemo_gym.json_objects import replace_surrogates

settings.register_profile("gym", deadline=None)  # no test asserts a time
settings.load_profile("gym")

# pytest imports readline, which sets it: programs would wrap what they print.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")  # so that os.environ does not know of it in the first process

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in the background of a script; programs would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker waits for another at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long_file") is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    _set_apart()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace halves of characters in the output of a test, which a process of pytest-xdist cannot send to another."""
    report = yield
    report.sections = [(title, replace_surrogates(text)) for title, text in report.sections]
    if report.longrepr is not None and (text := str(report.longrepr)) != replace_surrogates(text):
        report.longrepr = replace_surrogates(text)
    return report


@pytest.fixture(autouse=True, scope="module")
def _what_tests_leave_is_set_apart() -> Iterator[None]:
    yield
    _set_apart()


def _set_apart() -> None:
    """Exclude the garbage of earlier tests from collection, which would otherwise halt a test for a second."""
    gc.collect()
    gc.freeze()
