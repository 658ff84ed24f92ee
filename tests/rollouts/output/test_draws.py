"""The file of draws: written before rollouts start, continued after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.draws import DrawFile, DrawRecord
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rows.identity import RolloutId

KIND: dict[str, object] = {"units": 3, "pair": None}
DRAW = DrawRecord(2, 0, 0.25, 0.125, 0.2)


def open_draws(folder: Path, kind: dict[str, object] = KIND) -> DrawFile:
    return DrawFile(RunFiles.from_output(folder / "out.jsonl"), kind)


def test_draws_are_read_again(tmp_path: Path) -> None:
    file = open_draws(tmp_path)
    file.append(DRAW)
    file.append(DRAW._replace(repeat=1))
    file.close()
    file = open_draws(tmp_path)
    assert file.records == [DRAW, DRAW._replace(repeat=1)]
    file.close()


def test_a_torn_draw_has_not_started(tmp_path: Path) -> None:
    file = open_draws(tmp_path)
    file.append(DRAW)
    file.close()
    with (tmp_path / "out_draws.jsonl").open("ab") as torn:
        torn.write(b'{"unit":1,"rep')
    file = open_draws(tmp_path)
    assert file.records == [DRAW]
    file.close()


def test_draws_that_do_not_count_and_rollouts_without_a_row(tmp_path: Path) -> None:
    draws = [DRAW._replace(repeat=repeat) for repeat in range(5)]
    file = open_draws(tmp_path)
    for draw in draws[:4]:
        file.append(draw)
    file.close()
    file = open_draws(tmp_path)
    file.note_discarded(RolloutId(2, 0))
    file.keep(3, [1, 2])
    file.append(draws[4])
    file.close()
    file = open_draws(tmp_path)
    assert (file.records, file.voided) == ([*draws[:3], draws[4]], [draws[3]])
    assert (file.lost, file.discarded) == ({1, 2}, {RolloutId(2, 0)})
    file.close()


def test_draws_of_another_kind_are_refused(tmp_path: Path) -> None:
    open_draws(tmp_path).close()
    with pytest.raises(ConfigError, match="units: 3 -> 4"):
        open_draws(tmp_path, {**KIND, "units": 4})


def test_a_line_that_is_no_draw_is_refused(tmp_path: Path) -> None:
    open_draws(tmp_path).close()
    with (tmp_path / "out_draws.jsonl").open("ab") as other:
        other.write(b'{"unit":1}\n')
    with pytest.raises(ConfigError, match=r"out_draws.jsonl:2 is no draw: it lacks 'repeat'"):
        open_draws(tmp_path)
