"""`ng_report`: write a run as one HTML file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_notes, several


class ReportKeys(Keys):
    input_jsonl_fpath: str | list[str] = Field(
        description="The scored rows of a run, beside its failures; of several, to rank their models."
    )
    output_html_fpath: str | None = Field(
        None, description="The file to write; by default beside the rows, ending in `_report.html`."
    )


COMMAND = Command(
    name="ng_report",
    summary="Write a run as one HTML file: rewards, pass@k, latency, tokens and failures of each agent; several as "
    "a ranking of their models.",
    example="ng_report +input_jsonl_fpath=results/rollouts.jsonl +output_html_fpath=report.html",
    keys=ReportKeys,
)


def write(keys: ReportKeys) -> int:
    from nemo_gym.rollouts.lookback.rank_page import write_ranking
    from nemo_gym.rollouts.lookback.report import write_report
    from nemo_gym.rollouts.output.files import RunFiles

    runs = [Path(path) for path in several(keys.input_jsonl_fpath)]
    files = RunFiles.from_existing(runs[0])
    output = Path(keys.output_html_fpath or files.folder / f"{files.stem}_report.html")
    if len(runs) == 1:
        print_notes(write_report(runs[0], output).notes())
    else:
        write_ranking(runs, output)
    print(output)
    return ExitCode.COMPLETE


main = COMMAND.entry_point(write)
