from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.inputs.skills import load_skill_directory, stage_skills

SKILL = "---\nname: tables\ndescription: Read tables.\n---\nRead row by row.\n"


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    (folder / "tables").mkdir(parents=True)
    (folder / "tables" / "SKILL.md").write_text(SKILL)
    return folder


def test_skills_are_read_with_their_metadata(skills: Path) -> None:
    found = load_skill_directory(str(skills))
    assert [(skill.name, skill.description) for skill in found.skills] == [("tables", "Read tables.")]
    assert len(found.hash) == 12


def test_a_change_of_any_file_changes_the_digest(skills: Path) -> None:
    digests = [load_skill_directory(str(skills)).hash]
    (skills / "tables" / "SKILL.md").write_text(SKILL + "Mind the header.\n")
    digests.append(load_skill_directory(str(skills)).hash)
    (skills / "tables" / "notes.txt").touch()
    digests.append(load_skill_directory(str(skills)).hash)
    (skills / "tables" / "notes.txt").rename(skills / "tables" / "more.txt")
    digests.append(load_skill_directory(str(skills)).hash)
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    "name", ["__pycache__/a.cpython-311.pyc", ".SKILL.md.swp", "SKILL.md~", ".#SKILL.md"]
)
def test_what_a_program_leaves_behind_changes_no_digest(skills: Path, name: str) -> None:
    before = load_skill_directory(str(skills)).hash
    path = skills / "tables" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert load_skill_directory(str(skills)).hash == before


def test_skills_are_copied_to_a_new_folder(skills: Path, tmp_path: Path) -> None:
    stage_skills(str(skills), tmp_path / "home" / "skills")
    assert (tmp_path / "home" / "skills" / "tables" / "SKILL.md").read_text() == SKILL
    with pytest.raises(FileExistsError):
        stage_skills(str(skills), tmp_path / "home" / "skills")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no SKILL.md: tables"),
        ("Read row by row.\n", "front matter"),
        ("---\nname: [\n---\n", "not valid"),
        ("---\ndescription: no name\n---\n", "name"),
    ],
)
def test_a_malformed_skill_is_an_error(skills: Path, text: str | None, message: str) -> None:
    file = skills / "tables" / "SKILL.md"
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_skill_directory(str(skills))


def test_a_missing_or_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no folder of skills"):
        stage_skills(str(tmp_path / "absent"), tmp_path / "home")
    with pytest.raises(ValueError, match="it has no skills"):
        load_skill_directory(str(tmp_path))
