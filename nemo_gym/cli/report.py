"""`ng_report`: write a run as one HTML file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_notes


class ReportKeys(Keys):
    input_jsonl_fpath: str = Field(description="The scored rows of a run, beside its failures.")
    output_html_fpath: str | None = Field(
        None, description="The file to write; by default beside the rows, ending in `_report.html`."
    )


COMMAND = Command(
    name="ng_report",
    summary="Write a run as one HTML file: rewards, pass@k, latency, tokens and failures of each agent.",
    example="ng_report +input_jsonl_fpath=results/rollouts.jsonl +output_html_fpath=report.html",
    keys=ReportKeys,
)


def write(keys: ReportKeys) -> int:
    from nemo_gym.rollouts.lookback.report import write_report
    from nemo_gym.rollouts.output.files import RunFiles

    rows = Path(keys.input_jsonl_fpath)
    files = RunFiles.from_output(rows)
    output = Path(keys.output_html_fpath or files.folder / f"{files.stem}_report.html")
    account = write_report(rows, output)
    print(output)
    print_notes(account.notes())
    return ExitCode.COMPLETE


main = COMMAND.entry_point(write)
