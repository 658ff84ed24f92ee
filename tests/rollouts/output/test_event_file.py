"""The file of events is appended to, and a torn end is kept apart."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.rollouts.output.event_file import EventFile
from nemo_gym.rollouts.output.files import RunFiles


def test_lines_are_added_to_those_of_earlier_starts(tmp_path: Path) -> None:
    files = RunFiles.from_output(tmp_path / "rollouts.jsonl")
    for line in (b'{"verb":"pause"}', b'{"verb":"resume"}'):
        file = EventFile(files)
        file.append(line)
        file.close()
        with files.events.open("ab") as torn:
            torn.write(b'{"verb"')
    assert files.events.read_bytes() == b'{"verb":"pause"}\n{"verb":"resume"}\n{"verb"'
    assert (tmp_path / "rollouts_torn_1.jsonl").read_bytes() == b'{"verb"'
