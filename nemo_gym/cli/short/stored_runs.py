"""`gym eval reverify` and `gym eval profile` of a run's file: the rest follows from the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from nemo_gym.cli.short.translation import GymLine, Target, names_as, translate_configured
from nemo_gym.config.spelling import spell

_ROWS = ("jsonl", "jsonl.gz", "jsonl.zst")


def translate_reverify(line: GymLine) -> Target:
    """`gym eval reverify [FILE] [NAME]`. Without a name, the environments are those of the run's manifest."""
    files = [name for name in line.names if name.endswith(_ROWS)]
    names = [name for name in line.names if name not in files]
    if len(files) > 1:
        raise click.UsageError(f"One run is scored again at a time, not {files[1]!r} too.")
    if files:
        output = [] if line.has_key("output_jsonl_fpath") else [_name_output(files[0], "reverified")]
        given = [f"++input_jsonl_fpath={spell(files[0])}", *output]
        named = names or ([] if _selects(line) else _read_environments(Path(files[0])))
        line = replace(line, names=named, flags=[*given, *line.flags], usage="[NAME]...")
    return translate_configured(line)


def translate_profile(line: GymLine) -> Target:
    """`gym eval profile FILE`, by default into a file beside it."""
    target = names_as("input_jsonl_fpath")(line)
    if line.has_key("output_jsonl_fpath") or not line.names:
        return target
    return Target(target.command, [*target.arguments, _name_output(line.names[0], "profile")])


def _name_output(file: str, suffix: str) -> str:
    """Return the override of an output beside a file of rows."""
    stem, _, _ = Path(file).name.partition(".jsonl")
    return f"++output_jsonl_fpath={spell(str(Path(file).with_name(f'{stem}_{suffix}.jsonl')))}"


def _selects(line: GymLine) -> bool:
    """Return whether options or overrides name the environments."""
    options = ("environment", "benchmark", "resources_server", "config")
    return line.has_key("config_paths") or any(line.values.get(option) for option in options)


def _read_environments(rows: Path) -> Sequence[str]:
    """Return the names of the environments of a run; none if it has no manifest."""
    from nemo_gym.rollouts.output.files import RunFiles
    from nemo_gym.rollouts.output.manifest import Manifest

    manifest = Manifest.read(RunFiles.from_output(rows).manifest)
    config = manifest.identity.get("config") or {} if manifest is not None else {}
    return sorted({kind for block in config.values() for kind in block.get("resources_servers") or ()})
