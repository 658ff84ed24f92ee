"""The record of heavy suites: a pass is noted at a clean commit, and a change of what it covers makes it stale."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.heavy_suites import COVERED, ROOT, find_stale, main, note_pass, read_passes

SUITE = "test-trackers"
COVERED_FILE = "nemo_gym/rollouts/tracking/wandb.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with a commit that holds a file which `SUITE` covers."""
    (tmp_path / COVERED_FILE).parent.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    run(tmp_path, "init", "--quiet")
    commit(tmp_path, COVERED_FILE, "first")
    return tmp_path


def run(root: Path, *arguments: str) -> None:
    names = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *names, *arguments], cwd=root, check=True, capture_output=True)


def commit(root: Path, file: str, text: str) -> None:
    (root / file).write_text(text)
    run(root, "add", "--all")
    run(root, "commit", "--quiet", "--message", text)


def stale(root: Path) -> str:
    return "\n".join(line for line in find_stale(root) if f"`make {SUITE}`" in line)


def test_a_suite_without_a_pass_is_stale(checkout: Path) -> None:
    assert "no pass is on record" in stale(checkout)


def test_a_pass_holds_until_a_covered_file_changes(checkout: Path) -> None:
    assert note_pass(SUITE, checkout) is None
    assert stale(checkout) == ""
    commit(checkout, "README.md", "no file of the suite")
    assert stale(checkout) == ""
    commit(checkout, COVERED_FILE, "changed")
    assert stale(checkout).endswith(": 1")


def test_a_covered_change_that_is_not_committed_is_seen(checkout: Path) -> None:
    assert note_pass(SUITE, checkout) is None
    (checkout / COVERED_FILE).write_text("by hand")
    assert stale(checkout).endswith(": 1")
    assert "uncommitted changes" in str(note_pass(SUITE, checkout))


def test_a_pass_at_a_commit_that_is_not_here_is_said(checkout: Path) -> None:
    (checkout / "tests/heavy_suites.json").write_text(
        '{"test-trackers": {"commit": "0123456789ab", "date": ""}}'
    )
    assert "of a commit that this checkout lacks" in stale(checkout)


def test_passes_of_other_suites_stay(checkout: Path) -> None:
    assert note_pass(SUITE, checkout) is None
    assert note_pass("simulate", checkout) is None
    assert set(read_passes(checkout)) == {SUITE, "simulate"}


def test_nothing_is_said_outside_a_checkout(tmp_path: Path) -> None:
    assert list(find_stale(tmp_path)) == []
    assert note_pass(SUITE, tmp_path) == "this is no git checkout"


def test_every_suite_is_a_target_of_the_makefile_and_covers_paths_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for suite, paths in COVERED.items():
        assert re.search(rf"^[\w -]*\b{suite}:", makefile, re.MULTILINE), suite
        assert all((ROOT / path).exists() for path in paths), suite


def test_an_unknown_suite_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passed", "nothing"]) == 2
    assert "usage" in capsys.readouterr().err
