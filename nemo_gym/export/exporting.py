"""An export from its settings to its report: read groups, select, write rows."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.export._formats import Format, Options, find_format
from nemo_gym.export._rollouts import RolloutFiles
from nemo_gym.export._selection import Selection
from nemo_gym.export._splits import Splits
from nemo_gym.export._writing import build_split_path, find_ending, open_row_file
from nemo_gym.export.report import Report
from nemo_gym.export.settings import ExportSettings as ExportSettings
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import dump_json
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.dataset import locate

_DIGEST_BYTES = 12


def export(settings: ExportSettings) -> Report:
    """Write the files of an export. Raises `ConfigError` for invalid settings or input; then no file is changed."""
    chosen = find_format(settings.format)
    files = RolloutFiles(settings.inputs)
    report = Report()
    target = chosen(_read_options(chosen, settings, files), report)
    if target.joins_inputs:
        files.join()
    selection = Selection(settings, settings.outcomes or target.outcomes, target.min_reward)
    splits = Splits(settings.splits, settings.split_by) if settings.splits else None
    _check_output(settings, target)
    merges, digests = _merges(settings, target), set[bytes]()
    with ExitStack() as stack:
        outputs = _open_outputs(settings, splits, stack)
        report.rows.update({str(path): 0 for path, _ in outputs.values()})
        for group in files.groups(report):
            selection.select(group, report)
            path, file = outputs[splits.find_split(group) if splits else ""]
            for row in target.rows(group):
                line = dump_json(row)
                digest = hashlib.blake2b(line, digest_size=_DIGEST_BYTES).digest() if merges else b""
                if digest in digests:
                    report.duplicates += 1
                    continue
                if merges:
                    digests.add(digest)
                file.write(line + b"\n")
                report.rows[str(path)] += 1
    report.runs = [account.to_json() for account in files.accounts]
    return report


def _read_options(chosen: type[Format[Any]], settings: ExportSettings, files: RolloutFiles) -> Options:
    try:
        return chosen.options_type.model_validate({**chosen.defaults(files), **settings.options})
    except ValidationError as error:
        known = ", ".join(chosen.options_type.model_fields) or "none"
        remedy = f"The options of {chosen.name} are: {known}."
        problems = [
            Problem(None, f"+options.{'.'.join(map(str, each['loc']))}: {each['msg']}", remedy)
            for each in error.errors()
        ]
        raise ConfigErrors(problems) from error


def _merges(settings: ExportSettings, target: Format[Any]) -> bool:
    if settings.merge_equal_rows and not target.merges_equal_rows:
        raise ConfigError(
            f"+deduplicate can't be used with {target.name}: its rows are part of a baseline, or name their rollout",
            code="bad_deduplicate",
            remedy="Leave +deduplicate out.",
        )
    return target.merges_equal_rows if settings.merge_equal_rows is None else settings.merge_equal_rows


def _check_output(settings: ExportSettings, target: Format[Any]) -> None:
    ending = find_ending(settings.output)
    if ending not in target.endings:
        raise ConfigError(
            f"{target.name} is written as {' or '.join(target.endings)}, not {ending}",
            code="output_ending",
            remedy=f"Give the output the ending {target.endings[0]}.",
        )
    if ending == ".parquet" and getattr(target.options, "arguments", None) == "object":
        raise ConfigError(
            "a Parquet column gives every object the fields of all, which would change the arguments of tool calls",
            code="arguments_in_parquet",
            remedy="Add +options.arguments=string, or write .jsonl.",
        )


def _open_outputs(
    settings: ExportSettings, splits: Splits | None, stack: ExitStack
) -> dict[str, tuple[Path, BinaryIO]]:
    """Open the file of each split, or one file with an empty name if there are no splits."""
    paths = (
        {name: build_split_path(settings.output, name) for name in splits.names}
        if splits
        else {"": settings.output}
    )
    refuse_inputs(paths.values(), map(locate, settings.inputs))
    taken = [str(path) for path in paths.values() if path.exists()]
    if taken and not settings.overwrite:
        raise ConfigError(
            f"the output exists: {', '.join(taken)}",
            code="output_exists",
            remedy="Choose another +output, or add +overwrite=true.",
        )
    return {name: (path, stack.enter_context(open_row_file(path))) for name, path in paths.items()}
