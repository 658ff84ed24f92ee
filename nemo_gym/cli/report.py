"""`ng_report`: write runs as one HTML file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_folded, print_notes, several


class ReportKeys(Keys):
    input_jsonl_fpath: str | list[str] = Field(
        description="The scored rows of a run, beside its failures, or a folder of runs; several, for their "
        "comparisons too."
    )
    output_html_fpath: str | None = Field(
        None,
        description="The file to write; by default beside the rows or in the folder, ending in `_report.html`.",
    )


COMMAND = Command(
    name="ng_report",
    summary="Write runs as one HTML file: the viewer's pages with figures, rollouts, failures and comparisons.",
    example="ng_report +input_jsonl_fpath=results/rollouts.jsonl +output_html_fpath=report.html",
    keys=ReportKeys,
)


def write(keys: ReportKeys) -> int:
    from nemo_gym.rollouts.output.atomic import write_atomically
    from nemo_gym.rollouts.output.files import RunFiles
    from nemo_gym.rollouts.output.inputs import refuse_repeats
    from nemo_gym.viewer.exporting import check_target, export_page
    from nemo_gym.viewer.filtering import RowFilter
    from nemo_gym.viewer.finding import find_runs

    rows = [Path(path) for path in several(keys.input_jsonl_fpath)]
    refuse_repeats(rows)
    for path in rows:
        if not path.is_dir():
            RunFiles.from_existing(path)  # refuses another file
    output = Path(keys.output_html_fpath) if keys.output_html_fpath else _name_output(rows[0])
    check_target(output)
    page = export_page(find_runs(rows), RowFilter(""))
    write_atomically(output, page.html.encode())
    print_folded(f"{output}: {page.note}")
    print_notes(page.notes)
    return ExitCode.COMPLETE


def _name_output(first: Path) -> Path:
    """Return the file of a report of a run and others, or of a folder."""
    from nemo_gym.rollouts.output.files import RunFiles

    files = None if first.is_dir() else RunFiles.from_existing(first)
    folder, stem = (files.folder, files.stem) if files else (first, first.resolve().name)
    return folder / f"{stem}_report.html"


main = COMMAND.entry_point(write)
