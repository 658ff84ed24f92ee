"""`python -m perf`: its benchmarks, their keys, and refused input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perf import __main__ as bench
from perf.catalogue import BENCHMARKS


def test_every_module_that_runs_is_listed_and_every_one_that_is_listed_runs() -> None:
    folder = Path(next(iter(__import__("perf").__path__)))
    runs = {path.stem for path in folder.glob("*.py") if "\ndef run(" in path.read_text(encoding="utf-8")}
    assert runs == set(BENCHMARKS)


def test_an_unknown_benchmark_is_bad_input_that_names_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _exit_code("speed") == 2
    assert "startup, validate, hop" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["collector", "+rows=many"], "rows"),
        (["startup", "+rows=1000"], "rows"),
        (["calls", "+keep=true", "+against=/tmp"], "exclude each other"),
        (["all", "+against=/tmp"], "one benchmark"),
    ],
)
def test_an_invalid_key_of_a_benchmark_is_bad_input(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(*arguments) == 2
    assert said in capsys.readouterr().err


def test_help_shows_the_keys_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert _exit_code("collector", "--help") == 0
    assert "rows  (whole number, default 200000)" in capsys.readouterr().out


def test_the_result_says_of_what_it_is(tmp_path: Path) -> None:
    output = tmp_path / "calls.json"
    subprocess.run([sys.executable, "-m", "perf", "calls", "--json", str(output)],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    result = json.loads(output.read_text())
    assert {
        "benchmark",
        "commit",
        "code",
        "at",
        "machine",
        "versions",
        "settings",
        "seconds",
        "figures",
    } == set(result)
    assert result["figures"]["inline"]["calls_per_rollout"] > 100


def _exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        bench.main(arguments)
    return int(ended.value.code or 0)
