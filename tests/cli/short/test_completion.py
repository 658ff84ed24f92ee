"""The completions of a word, by verb and option."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.cli.short.completion import complete_argument, complete_option, script


def values(found: list[object]) -> list[tuple[str, str]]:
    return [(item.type, item.value) for item in found]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "environments" / "wordle" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("{}\n")
    monkeypatch.chdir(tmp_path)


def test_names_of_own_folders_are_completed() -> None:
    assert values([*complete_argument("run", "[NAME]...", "word")]) == [("plain", "wordle")]
    assert values([*complete_option("--environment", "NAME", "word")]) == [("plain", "wordle")]
    assert values([*complete_option("--benchmark", "NAME", "word")]) == []


def test_paths_are_left_to_the_shell() -> None:
    assert values([*complete_argument("run", "[NAME]...", "./w")]) == [("file", "./w")]
    assert values([*complete_argument("compare", "BEFORE AFTER", "a")]) == [("file", "a")]
    assert values([*complete_option("--search-dir", "DIR", "a")]) == [("dir", "a")]
    assert values([*complete_option("--input", "FILE", "a")]) == [("file", "a")]


def test_keys_are_completed_after_a_plus() -> None:
    assert values([*complete_argument("status", "", "+tim")]) == [("plain", "+timeout_s=")]
    assert values([*complete_argument("status", "", "++js")]) == [("plain", "++json=")]
    assert values([*complete_argument("status", "", "js")]) == []


def test_shells_are_completed() -> None:
    assert values([*complete_argument("completion", "SHELL", "")]) == [
        ("plain", "bash"), ("plain", "zsh"), ("plain", "fish"),
    ]  # fmt: skip


def test_options_with_free_values_have_no_completions() -> None:
    assert complete_option("--model", "NAME", "q") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_each_program_has_a_script(shell: str) -> None:
    assert "_NG_COMPLETE" in script(shell, "ng")
