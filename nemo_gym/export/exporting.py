"""An export from its settings to its report: read groups, select, write rows."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, Literal

from pydantic import ValidationError

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.export._writing import build_split_path, find_ending, has_rows, open_row_file
from nemo_gym.export.formats import Format, Options, find_format
from nemo_gym.export.report import LeftOut, Report, Unsuitable
from nemo_gym.export.rollouts import Group, RolloutFiles, ScoredRollout
from nemo_gym.export.settings import ExportSettings as ExportSettings
from nemo_gym.failures import ConfigError, Outcome
from nemo_gym.json_objects import dump_json
from nemo_gym.metrics.verdict_tally import lacks_answer
from nemo_gym.rollouts.output.inputs import refuse_inputs
from nemo_gym.rollouts.plan.dataset import locate
from nemo_gym.rows.verdict import is_tamperable, read_answer_fault

__all__ = ["ExportSettings", "export"]

_DIGEST_BYTES = 12


def export(settings: ExportSettings) -> Report:
    """Write the files of an export. Raises `ConfigError` for invalid settings or input; then no file is changed."""
    chosen = find_format(settings.format)
    files = RolloutFiles(settings.inputs)
    report = Report()
    target = chosen(_read_options(chosen, settings, files), report)
    target.output = settings.output
    if target.joins_inputs:
        files.join()
    selection = Selection(
        settings, settings.outcomes or target.outcomes, target.min_reward, target.learns_answers
    )
    splits = Splits(settings.splits, settings.split_by) if settings.splits else None
    _check_output(settings, target)
    merges, digests = _merges(settings, target), set[bytes]()
    with ExitStack() as stack:
        outputs = _open_outputs(settings, splits, stack, target)
        report.rows.update({str(path): 0 for path, _ in outputs.values()})
        kind = {"joins_agents": target.joins_agents, "for_training": target.for_training}
        for group in files.groups(report, **kind):
            selection.select(group, report)
            path, file = outputs[splits.find_split(group) if splits else ""]
            earlier = report.exported
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
            report.count_origin(group.members[0].origin, report.exported - earlier)
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
    settings: ExportSettings, splits: Splits | None, stack: ExitStack, target: Format[Any]
) -> dict[str, tuple[Path, BinaryIO]]:
    """Open the file of each split, or one file with an empty name if there are no splits."""
    paths = (
        {name: build_split_path(settings.output, name) for name in splits.names}
        if splits
        else {"": settings.output}
    )
    refuse_inputs(paths.values(), map(locate, settings.inputs))
    taken = [str(path) for path in paths.values() if has_rows(path)]
    if taken and not settings.overwrite:
        raise ConfigError(
            f"the output exists: {', '.join(taken)}",
            code="output_exists",
            remedy="Choose another +output, or add +overwrite=true.",
        )
    files = {name: open_row_file(path, target.header, target.member) for name, path in paths.items()}
    return {name: (paths[name], stack.enter_context(file)) for name, file in files.items()}


# --- Splits -----------------------------------------------------------------------------------------------------------
# The splits of an export. The prompt alone decides the split of a task.
# A task is therefore in the same split in every export, on every machine, even after tasks were added. All rollouts
# of a task stay together, and so do tasks with the same prompt.


_NAME = re.compile(r"[\w.-]+")


class Splits:
    """Assigns groups to splits by their shares."""

    def __init__(self, shares: Mapping[str, float], by: Literal["prompt", "task"] = "prompt") -> None:
        """`by`: a task's prompt, or its number where all prompts are equal.

        Raises `ConfigError` for shares that aren't positive or don't add up to 1, and for invalid names.
        """
        if any(not share > 0 for share in shares.values()) or not math.isclose(sum(shares.values()), 1.0):
            given = ", ".join(f"{name}={share:g}" for name, share in shares.items())
            raise ConfigError(
                f"the shares of +splits must be above 0 and add up to 1, not: {given}",
                code="bad_splits",
                remedy="For example: +splits={train:0.9,validation:0.1}.",
            )
        if invalid := [name for name in shares if not _NAME.fullmatch(name)]:
            raise ConfigError(
                f"the names of +splits become parts of file names; these can't: {', '.join(map(repr, invalid))}",
                code="bad_splits",
                remedy="Use letters, digits, `_`, `-` and `.`.",
            )
        self._by = by
        self.names = sorted(shares)
        self._bounds = list(accumulate(shares[name] for name in self.names))

    def find_split(self, group: Group) -> str:
        """Return the split of a group."""
        key = group.fingerprint if self._by == "prompt" else group.task.encode()
        place = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
        bounds = zip(self.names, self._bounds, strict=True)
        return next((name for name, bound in bounds if place < bound), self.names[-1])


# --- Filters ----------------------------------------------------------------------------------------------------------
# The filters of an export. A rollout that is filtered out still counts in its group's baseline.


@dataclass(frozen=True, slots=True)
class Selection:
    """The filters of an export, and the outcomes that it takes."""

    settings: ExportSettings
    outcomes: Collection[Outcome]
    min_reward: float | None = None
    """The lowest reward of the format, for settings without a bound."""
    needs_answer: bool = False
    """Whether a rollout must end with an answer that its verifier could judge."""

    def select(self, group: Group, report: Report) -> None:
        """Leave out the group's selected rollouts that a filter rejects."""
        wanted = report.suitable(group.selected, lambda rollout: self._check(rollout, report))
        group.selected = [rollout for rollout, _ in wanted]

    def _check(self, rollout: ScoredRollout, report: Report) -> None:
        if rollout.outcome not in self.outcomes:
            raise Unsuitable(LeftOut.OUTCOME)
        wanted = self.settings
        if is_tamperable(rollout.row) and not wanted.allow_tamperable:
            raise Unsuitable(LeftOut.TAMPERABLE)
        if wanted.environments and not any(fnmatchcase(rollout.environment, e) for e in wanted.environments):
            raise Unsuitable(LeftOut.ENVIRONMENT)
        if self.needs_answer and read_answer_fault(rollout.row) is not None:
            raise Unsuitable(LeftOut.BROKE_VERIFIER)
        if (reason := self._reject_reward(rollout.reward)) is not None:
            report.rewards[rollout.reward] += 1
            raise Unsuitable(reason)
        if self.needs_answer and lacks_answer(rollout.row):
            raise Unsuitable(LeftOut.NO_ANSWER)
        if wanted.min_output_tokens is None and wanted.max_output_tokens is None:
            return
        length = rollout.output_tokens
        if length is None:
            raise Unsuitable(LeftOut.UNKNOWN_LENGTH)
        if not _is_within(length, wanted.min_output_tokens, wanted.max_output_tokens):
            raise Unsuitable(LeftOut.LENGTH)

    def _reject_reward(self, reward: float) -> LeftOut | None:
        low, high = self.settings.min_reward, self.settings.max_reward
        if low is None and high is None:
            return None if _is_within(reward, self.min_reward, None) else LeftOut.LOW_REWARD
        return None if _is_within(reward, low, high) else LeftOut.REWARD


def _is_within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)
