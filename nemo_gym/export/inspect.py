"""A log of Inspect (`.json`): a sample per rollout, for `inspect view` and other readers of logs.

It is no format of a trainer: rollouts that are masked, and those of other programs, are in it. Images and audio are in
the messages. Data without a field, such as the ids of tokens, are in the `metadata` of their sample and are counted by
kind; the score `reward` is the reward. `gym eval reverify --input-format inspect` and `gym view` read the log back, and
every row is the same as before.
"""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.export._writing import DOCUMENT
from nemo_gym.export.formats import ExportRecord, Format, Options
from nemo_gym.export.report import Loss
from nemo_gym.export.rollouts import Group
from nemo_gym.sources.inspect_logs.writing import build_header, write_sample


class Inspect(Format[Options]):
    name = "inspect"
    summary = "a log of Inspect, which its viewer and its functions read"
    endings = (DOCUMENT,)
    header = build_header()
    member = "samples"
    for_training = False
    losses = (Loss.EXTRA,)
    example = "ng_export +format=inspect +input=rollouts.jsonl +output=data/log.json"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        for rollout in group.selected:
            written = write_sample(rollout.row)
            self.report.kept_aside.update(written.kept_aside)
            self.report.export([Loss.EXTRA] if written.kept_aside else [])
            yield written.content
