from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests import house_counts
from tests.house_counts import (
    PACKAGE,
    ROOT,
    count_comments,
    find_ecosystem_only,
    find_importers,
    find_imports,
    find_lone_modules,
    list_sources,
    main,
)

OFFERED_FROM_ITS_ROOM = {"nemo_gym/responses/converter.py": "it is made of private modules of the room"}


def test_logic_that_only_the_ecosystem_calls_has_a_room_of_its_own() -> None:
    elsewhere = [path for path in find_ecosystem_only() if not path.startswith("nemo_gym/ecosystem/")]
    assert elsewhere == list(OFFERED_FROM_ITS_ROOM)


def test_few_modules_have_their_neighbour_as_the_only_importer() -> None:
    assert 0 < len([each for each in find_lone_modules() if each.lines <= 450]) <= 80


def test_importers_are_files_of_any_folder_that_scripts_and_texts_name(tmp_path: Path) -> None:
    importers = find_importers()
    assert "nemo_gym/rollouts/run/collect.py" in importers["nemo_gym.rollouts.run.collector"]
    assert "resources_servers/math_with_judge/app.py" in importers["nemo_gym.verify.judge"]
    assert "pyproject.toml" in importers["nemo_gym.cli.run"]
    assert "nemo_gym/__init__.py" in importers["nemo_gym.evaluation.evaluation"]
    module = tmp_path / "module.py"
    module.write_text('import os\nfrom nemo_gym.rows import keys\nfrom . import x\nA = "nemo_gym.names:B"\n')
    assert list(find_imports(module)) == [("os", None), ("nemo_gym.rows", "keys"), ("nemo_gym.names", None)]


def test_coverage_is_measured_of_the_rooms_whose_tests_run() -> None:
    report = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"][
        "report"
    ]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^COVERED := \$\(addprefix tests/,(.*)\)$", makefile, re.MULTILINE)
    assert [f"nemo_gym/{room}/*" for room in tested.split()] == report["include"]
    assert report["fail_under"] >= 96


def test_comments_for_tools_do_not_count(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('# why\nx = 1  # because\ny = 2  # noqa: X\n# --- Part ------\nz = "# no comment"\n')
    assert count_comments(module) == 2


def test_tests_are_no_sources(tmp_path: Path) -> None:
    for name in ("package/tests/test_a.py", "package/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert list(list_sources("package", root=tmp_path)) == [tmp_path / "package" / "a.py"]


def test_the_command_prints_every_count(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [PACKAGE / "clock.py", PACKAGE / "tls.py"]
    monkeypatch.setattr(house_counts, "list_sources", lambda *_: iter(few))
    monkeypatch.setattr(house_counts, "find_lone_modules", lambda: iter(()))
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["modules", "2"]
    assert {line.rpartition("  ")[0].strip() for line in lines} >= {"lines", "comments per 100 lines"}
