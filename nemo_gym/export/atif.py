"""ATIF, the trajectory format of Harbor: a line per rollout, for other programs and for `gym view`.

It is no format of a trainer: rollouts that are masked, and those of other programs, are in it. The version is 1.7, and
1.8 for a rollout with audio. Images and audio are files beside the output, in `<output>_media`. Whatever has no field
is in `extra` and is counted by kind; `extra.reward` is the reward. `gym eval reverify --input-format atif` and
`gym view` read the lines back, and every row is the same as before.
"""

from __future__ import annotations

from collections.abc import Iterator

from nemo_gym.export._writing import find_ending
from nemo_gym.export.formats import ExportRecord, Format, Options
from nemo_gym.export.report import Loss
from nemo_gym.export.rollouts import Group
from nemo_gym.rollouts.output.files import ENDINGS
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.writing import write_trajectory


class Atif(Format[Options]):
    name = "atif"
    summary = "trajectories as Harbor and other programs exchange them, with exact tokens"
    endings = ENDINGS
    for_training = False
    losses = (Loss.EXTRA,)
    example = "ng_export +format=atif +input=rollouts.jsonl +output=data/trajectories.jsonl"

    def rows(self, group: Group) -> Iterator[ExportRecord]:
        stem = self.output.name.removesuffix(find_ending(self.output))
        media = MediaFolder(self.output.parent, f"{stem}_media")
        for rollout in group.selected:
            written = write_trajectory(rollout.row, media)
            self.report.kept_aside.update(written.kept_aside)
            self.report.export([Loss.EXTRA] if written.kept_aside else [])
            yield written.content
