"""`ng_view`: show rollouts in a browser."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_folded, several, tell, unusable_address
from nemo_gym.failures import ConfigError

if TYPE_CHECKING:
    from nemo_gym.tokens.vocabulary import Vocabulary
    from nemo_gym.viewer.runs import Run


class ViewKeys(Keys):
    places: str | list[str] = Field(
        default=["results"],
        min_length=1,
        description="Files of scored rows, of ATIF trajectories or logs of Inspect, and folders that hold them.",
    )
    tokenizer: str | None = Field(
        None,
        description="A model's folder or its `tokenizer.json`, for the text of tokens. By default, the texts that were "
        "collected with the run.",
    )
    host: str = Field("127.0.0.1", description="The address to listen on; by default loopback.")
    port: int = Field(0, ge=0, le=65_535, description="The port; 0 for any free port, which is printed.")
    export: Path | None = Field(
        None, description="A file to write instead of serving: the pages with their rows in one HTML file."
    )
    row_filter: str = Field(
        "",
        alias="filter",
        description="With `export`: the rows to write, as in the page: reward<1 agent:swe*.",
    )
    limit: int = Field(1000, ge=1, description="With `export`: the most rollouts of a run to write.")
    as_json: bool = Field(
        False, alias="json", description="Print the address, or the exported file, as JSON."
    )


COMMAND = Command(
    name="ng_view",
    summary="Show rollouts in a browser: runs, rollouts, tokens, failures and comparisons.",
    example="ng_view +places=[results]",
    keys=ViewKeys,
    exit_codes={
        ExitCode.COMPLETE: "exported, or stopped by SIGTERM or SIGINT",
        ExitCode.FATAL: "failed",
        ExitCode.BAD_INPUT: "wrong usage, no run there, or an unusable address or file",
    },
)


def show_rollouts(keys: ViewKeys) -> int:
    with TemporaryDirectory(prefix="nemo_gym_view_") as folder:
        places = read_trajectories([Path(place) for place in several(keys.places)], Path(folder))
        return _show(keys, places)


def read_trajectories(places: Sequence[Path], folder: Path) -> list[Path]:
    """Return the places, with a file of rows in `folder` in the place of each one of trajectories."""
    from nemo_gym.rollouts.lookback.trajectories import holds_trajectories, read_rows
    from nemo_gym.rollouts.output.files import find_stem

    found = []
    for number, place in enumerate(places):
        if holds_trajectories(place):
            rows = read_rows(place)
            print(f"{place}: {rows.describe()}", file=sys.stderr)
            name = find_stem(place).removesuffix(".json") or "trajectories"
            place = folder / str(number) / f"{name}.jsonl"
            rows.write(place)
        found.append(place)
    return found


def _show(keys: ViewKeys, places: Sequence[Path]) -> int:
    from nemo_gym.tokens.vocabulary import read_vocabulary
    from nemo_gym.viewer.finding import find_runs

    runs = find_runs(places)
    vocabulary = read_vocabulary(Path(keys.tokenizer)) if keys.tokenizer else None
    if keys.export is not None:
        return _export(keys, keys.export, runs, vocabulary)
    if keys.model_fields_set & {"row_filter", "limit"}:
        raise ConfigError("`filter` and `limit` need `export`: the page itself has filters", code="no_export")
    return _serve(keys, places, runs, vocabulary)


def _export(keys: ViewKeys, target: Path, runs: Sequence[Run], vocabulary: Vocabulary | None) -> int:
    from nemo_gym.rollouts.output.atomic import write_atomically
    from nemo_gym.viewer.exporting import check_target, export_page
    from nemo_gym.viewer.filtering import RowFilter

    check_target(target)
    page = export_page(runs, RowFilter(keys.row_filter), keys.limit, vocabulary=vocabulary)
    content = page.html.encode()
    write_atomically(target, content)
    if keys.as_json:
        print(json.dumps({"file": str(target), "bytes": len(content), "note": page.note}))
    else:
        print_folded(f"{target} ({len(content) / 1e6:,.1f} MB): {page.note}")
    return ExitCode.COMPLETE


def _serve(keys: ViewKeys, places: Sequence[Path], runs: Sequence[Run], vocabulary: Vocabulary | None) -> int:
    import uvloop

    from nemo_gym.viewer.audit_pages import find_cards
    from nemo_gym.viewer.server import Viewer
    from nemo_gym.viewer.serving import serve

    is_one = len(runs) == 1 and not any(place.is_dir() for place in places)

    def announce(address: str) -> None:
        address += f"#/{runs[0].id}" if is_one else ""  # a list of one run would be a click for nothing
        found = f"{len(runs)} run{'s' * (len(runs) != 1)}"
        if cards := len(find_cards(places)):
            found += f", {cards} card{'s' * (cards != 1)} of audits (/audits)"
        line = json.dumps({"url": address}) if keys.as_json else f"{found} at {address}"
        print(line, flush=True)
        Thread(
            target=_tell_unfinished, args=(runs,), daemon=True
        ).start()  # large files take seconds to count

    try:
        uvloop.run(serve(Viewer(runs, vocabulary, places=places), announce, host=keys.host, port=keys.port))
    except OSError as error:
        raise unusable_address(keys.host, keys.port, error) from error
    return ExitCode.COMPLETE


def _tell_unfinished(runs: Sequence[Run]) -> None:
    """Print which runs are running, or were stopped before their plan."""
    from nemo_gym.rollouts.output.run_state import RunState

    for run in runs:
        if run.state() in (RunState.RUNNING, RunState.STOPPED):
            with suppress(ConfigError):  # the page names rows that cannot be read
                if (note := run.describe_progress()) is not None:
                    tell(f"note: {note}")


main = COMMAND.entry_point(show_rollouts)


if __name__ == "__main__":
    main()
