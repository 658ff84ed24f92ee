from __future__ import annotations

import pytest

from nemo_gym.engines.attempts.noise import CLASSES, Noise
from nemo_gym.failures import ConfigError

SAMPLES = {
    "uuid": ("id 0190163d-8694-739b-aea5-966c26f8ad91 ok", "id 11111111-8694-739b-aea5-966c26f8ad91 ok"),
    "address": ("<object at 0x7f0c45ffded0>", "<object at 0x7f0c45ff0000>"),
    "datetime": ("on 2026-11-23 at noon", "on 2026-11-24 at noon"),
    "tmp_path": ("wrote /tmp/a8d/x.py.", "wrote /tmp/zz/x.py."),
    "pid": ("killed pid 4711", "killed pid 99"),
    "port": ("at http://localhost:8000/v1", "at http://localhost:41231/v1"),
    "duration": ("Ran 7 tests in 0.002s", "Ran 7 tests in 1.5s"),
    "hex_id": ("Chunk ID: 3fa2bc", "Chunk ID: 000000"),
}


def test_every_class_has_a_sample() -> None:
    assert SAMPLES.keys() == CLASSES.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_a_difference_is_noise_only_if_its_class_is_declared(name: str) -> None:
    recorded, said = SAMPLES[name]
    assert Noise([name]).compare(recorded, said) == {name: 1}
    assert Noise().compare(recorded, said) is None


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ("took 3 s, found 4", "took 5 s, found 5"),
        ("took 3 s", "took 3 s "),
        ("took 3 s", "took"),
        ("took 3 s and 4 s", "took 3 s"),
        ("the facade", "the decade"),
        ("the balance is 123456", "the balance is 654321"),
        ("3 sheep", "4 sheep"),
        ("version 2.1", "version 2.2"),
    ],
)
def test_any_other_difference_stays_one_with_all_classes(recorded: str, said: str) -> None:
    assert Noise(CLASSES).compare(recorded, said) is None
    assert Noise(CLASSES).compare(said, recorded) is None


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ("Today is Monday, November 23, 2026.", "Today is Tuesday, November 24, 2026."),
        ("Mon Nov 23 2026", "Tue Nov 24 2026"),
        ("2026-11-23T10:00:00.123Z", "2026-11-24T11:10:00.999Z"),
        ("at 10:00:00", "at 11:11:11"),
    ],
)
def test_dates_of_known_agents_are_recognized(recorded: str, said: str) -> None:
    assert Noise(["datetime"]).compare(recorded, said) == {"datetime": 1}


@pytest.mark.parametrize(
    "text", ["duration_ms: {}", '{{"elapsed_seconds":{}}}', '{{"took_ms": {}}}', "wall_ms={}"]
)
def test_durations_with_a_name_are_recognized(text: str) -> None:
    assert Noise(["duration"]).compare(text.format(415), text.format(7.5)) == {"duration": 1}


@pytest.mark.parametrize(
    ("recorded", "said", "place"),
    [
        ("in 3 s: 4 passed", "in 15 s: 5 passed", (8, 9)),
        ("in 3 s", "in 15 s", (6, 7)),
        ("in 3 s", "in 15 s.", (6, 7)),
        ("took 3 s and 4 s", "took 3 s", (8, 8)),
        ("one", "two", (0, 0)),
    ],
)
def test_the_first_difference_is_the_first_that_is_no_noise(
    recorded: str, said: str, place: tuple[int, int]
) -> None:
    assert Noise(["duration"]).find_difference(recorded, said) == place


def test_an_unknown_class_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no class of noise named durations.*duration, hex_id"):
        Noise(["durations"])
