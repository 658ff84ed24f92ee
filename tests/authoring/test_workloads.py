from __future__ import annotations

from pathlib import Path

from nemo_gym.authoring.workloads import read_workloads
from nemo_gym.config.components import BENCHMARK, ENVIRONMENT
from tests.config.roots import write_root


def test_a_manifest_describes_before_the_servers_do(tmp_path: Path) -> None:
    write_root(tmp_path, "environments/game", "environments/puzzle")
    (tmp_path / "environments" / "game" / "manifest.yaml").write_text(
        "description: A\n  game\ndomain: games\n"
    )
    game, puzzle = read_workloads(ENVIRONMENT, tmp_path)
    assert (game.description, game.domain) == ("A game", "games")
    assert (puzzle.description, puzzle.domain) == ("The server puzzle", "math")
    assert [entry.component.name for entry in read_workloads(ENVIRONMENT, tmp_path, "games")] == ["game"]
    assert game.to_json()["configs"] == [str(tmp_path / "environments" / "game" / "config.yaml")]


def test_a_broken_configuration_is_listed_without_a_description(tmp_path: Path) -> None:
    file = tmp_path / "benchmarks" / "broken" / "config.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("a: [")
    (entry,) = read_workloads(BENCHMARK, tmp_path)
    assert (entry.component.name, entry.domain, entry.description) == ("broken", None, "")
