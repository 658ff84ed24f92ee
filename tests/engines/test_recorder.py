"""A recording of calls, which several processes can share."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.engines.recorder import Recorder
from nemo_gym.failures import ConfigError


def test_two_processes_can_share_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    first, second = Recorder(path), Recorder(path)
    for number in range(4):
        (first if number % 2 else second).add("chat", {"number": number}, {})
    first.close()
    second.close()
    assert [orjson.loads(line)["request"]["number"] for line in path.read_bytes().splitlines()] == [
        0,
        1,
        2,
        3,
    ]


def test_a_folder_in_place_of_the_file_is_an_error_that_names_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot record to") as caught:
        Recorder(tmp_path)
    assert (caught.value.failure.code, caught.value.failure.param) == ("record_unwritable", "record_to")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_an_error_and_not_a_lost_call() -> None:
    recorder = Recorder(Path("/dev/full"))
    with pytest.raises(ConfigError, match="No space left"):
        recorder.add("chat", {}, {})
    recorder.close()
