"""A line of `gym eval run` with environments of other projects. `make test-foreign` runs whole lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli.short import foreign as module
from nemo_gym.cli.short.foreign import has_foreign, place_foreign, take_terms
from nemo_gym.cli.short.translation import GymLine
from nemo_gym.failures import ConfigError


def test_names_of_other_projects_have_a_colon() -> None:
    assert has_foreign(["textarena:Nim-v0"])
    assert not has_foreign(["mcqa", "http://localhost:8000", "./a:b"])


def test_the_options_of_environments_are_taken_from_the_line() -> None:
    terms, others = take_terms(["+tasks=3", "+options={players: 4}", "++seed=7", "+other=1", "x=2"])
    assert (terms.tasks, terms.options, terms.seed, terms.split) == (3, {"players": 4}, 7, None)
    assert others == ["+other=1", "x=2"]


@pytest.mark.parametrize(
    "extra", ["+tasks=many", "+tasks=0", "+seed=x", "+max_steps=-1", "+options=3", "+options=[a]"]
)
def test_an_option_that_cannot_be_used_is_named(extra: str) -> None:
    with pytest.raises(ConfigError, match=extra.partition("=")[0].replace("+", r"\+")):
        take_terms([extra])


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["textarena:Nim-v0", "mcqa"], "not with 'mcqa'"),
        (["textarea:Nim-v0"], "no kind of environments"),
        (
            ["verifiers:no/where", "openenv:nor/here"],
            r"no folder \S+no/where\. There is no folder \S+nor/here",
        ),
        (["inspect:none.py@task"], r"There is no file \S+none\.py"),
    ],
)
def test_a_wrong_name_is_told_before_anything_is_installed(
    names: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_make", lambda *_: pytest.fail("it was made"))
    with pytest.raises(ConfigError, match=told):
        place_foreign(GymLine("e2e_collect_rollouts", {"output": None}, [], names, []))


def test_rows_and_configuration_lie_beside_the_output(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[tuple[str, int | None]] = []

    def make(named: object, terms: object, limit: int | None) -> tuple[list[object], dict[str, object]]:
        made.append((str(named), limit))
        return [{"task_id": str(named)}], {str(named): {}}

    monkeypatch.setattr(module, "_make", make)
    names = ["textarena:Nim-v0", "textarena:Mastermind-v0"]
    values = {"output": None, "limit": 2, "config": ("mine.yaml",)}
    line = place_foreign(GymLine("e2e_collect_rollouts", values, ["++limit=2", "++x=1"], names, ["+tasks=9"]))
    assert made == [(name, 2) for name in names]
    assert line.names == ()
    assert line.values["config"] == ("mine.yaml", "results/foreign_environments.yaml")
    assert list(line.flags) == ["++x=1"]
    assert list(line.extras) == [
        '++input_jsonl_fpath="results/foreign_tasks.jsonl"',
        '++output_jsonl_fpath="results/foreign.jsonl"',
    ]
    assert len((tmp_path / "results/foreign_tasks.jsonl").read_text().splitlines()) == 2
