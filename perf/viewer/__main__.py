"""`python -m perf.viewer [scale=100]`: the viewer on large runs. See `make bench-viewer`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys


class BenchKeys(Keys):
    scale: int = Field(1, ge=1, description="Runs have this part of their whole size.")
    folder: Path | None = Field(None, description="The folder for the runs, which are deleted at the end.")
    output: Path | None = Field(None, alias="json", description="A file for the figures.")


COMMAND = Command(
    name="python -m perf.viewer",
    summary="Measure the viewer on large runs in Chromium, and compare its answers with Python's.",
    example="python -m perf.viewer scale=100",
    keys=BenchKeys,
    exit_codes={ExitCode.COMPLETE: "every answer is right", ExitCode.FATAL: "an answer is wrong"},
)


def measure(keys: BenchKeys) -> int:
    from playwright.sync_api import sync_playwright

    from perf.viewer import rollouts, tables
    from perf.viewer.pages import Report

    report, scale = Report(), keys.scale
    with (
        tempfile.TemporaryDirectory(prefix="bench_viewer_", dir=keys.folder) as name,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        folder = Path(name)
        tables.measure_million(report, browser, _new(folder, "million"), 1_000_000 // scale)
        tables.measure_big(report, browser, _new(folder, "big"), 10_000_000_000 // scale)
        shutil.rmtree(folder / "big")
        tables.measure_searches(report, browser, _new(folder, "searched"), 200_000 // scale)
        rollouts.measure_live(report, browser, _new(folder, "live"))
        rollouts.measure_long(report, browser, _new(folder, "long"), scale)
        rollouts.measure_hostile(report, browser, _new(folder, "hostile"))
        rollouts.measure_tokens(report, browser, _new(folder, "tokens"), 131_072 // scale)
        rollouts.measure_flips(report, browser, _new(folder, "flips"), 20_000 // scale)
        rollouts.measure_flags(report, browser, _new(folder, "flags"), 100_000 // scale)
        rollouts.measure_folder(report, browser, _new(folder, "folder"), 500 // scale)
        rollouts.measure_exports(report, browser, _new(folder, "exported"), 10_000 // scale)
        browser.close()
    if keys.output is not None:
        keys.output.write_text(json.dumps(report.figures, indent=2) + "\n")
    print("\n".join(["", *report.wrong]) if report.wrong else "\nevery answer is right")
    return ExitCode.FATAL if report.wrong else ExitCode.COMPLETE


def _new(folder: Path, name: str) -> Path:
    new = folder / name
    new.mkdir()
    return new


if __name__ == "__main__":
    sys.exit(COMMAND.run(sys.argv[1:], measure))
