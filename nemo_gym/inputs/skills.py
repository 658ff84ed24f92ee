"""Skills: folders of instructions that an agent harness offers to its model (https://agentskills.io).

A folder of skills has one subfolder per skill, with a `SKILL.md` that begins with YAML front matter. Two versions of
the skills at one path are told apart by a digest of their files.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError

from nemo_gym.config.yaml_text import load_yaml

SKILL_FILE = "SKILL.md"
_DIGEST_CHARACTERS = 12
_LEFT_BEHIND = re.compile(r"/__pycache__/|\.pyc$|/\.[^/]*\.sw[a-p]$|~$|/\.?#[^/]*$")


class SkillMetadata(BaseModel):
    """The front matter of a skill."""

    name: str
    description: str | None = None
    version: str | None = None


class SkillsRef(BaseModel):
    """The skills of a run. Its rows carry it as `skills_ref`."""

    path: str
    hash: str
    """The first 12 hexadecimal digits of a SHA-256 over the paths and contents of all files."""
    skills: list[SkillMetadata]


def hash_skill_dir(root: Path) -> str:
    """Return the digest of a folder: a renamed, added, removed or changed file changes it.

    What running a skill's Python or an open editor leaves beside it does not.
    """
    digest = hashlib.sha256()
    files = (path for path in root.rglob("*") if path.is_file())
    for file in sorted(path for path in files if not _LEFT_BEHIND.search(f"/{path.relative_to(root)}")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:_DIGEST_CHARACTERS]


def parse_skill_md(skill_md_path: Path) -> SkillMetadata:
    """Return the front matter of a `SKILL.md`. Raises `ValueError` unless it is valid and has a name."""
    before, opened, rest = skill_md_path.read_text(encoding="utf-8").partition("---\n")
    front, closed, _ = rest.partition("\n---")
    if before.strip() or not opened or not closed:
        raise ValueError(f"{skill_md_path} does not begin with front matter between two lines of `---`")
    try:
        return SkillMetadata.model_validate(load_yaml(front))
    except (yaml.YAMLError, ValidationError) as error:
        raise ValueError(f"the front matter of {skill_md_path} is not valid: {error}") from error


def load_skill_directory(path: str) -> SkillsRef:
    """Return the skills in a folder. Raises `ValueError` if it is missing, empty or has a malformed skill."""
    root = _folder(path)
    folders = sorted(
        folder for folder in root.iterdir() if folder.is_dir() and not folder.name.startswith(".")
    )
    without = [folder.name for folder in folders if not (folder / SKILL_FILE).is_file()]
    if without or not folders:
        problem = (
            f"these folders have no {SKILL_FILE}: {', '.join(without)}" if without else "it has no skills"
        )
        raise ValueError(f"{root} is not a folder of skills: {problem}")
    skills = [parse_skill_md(folder / SKILL_FILE) for folder in folders]
    return SkillsRef(path=path, hash=hash_skill_dir(root), skills=skills)


def stage_skills(path: str, dest_skills_dir: Path) -> None:
    """Copy a folder of skills to `dest_skills_dir`, which must not exist. Raises `ValueError` without the folder."""
    shutil.copytree(_folder(path), dest_skills_dir)


def _folder(path: str) -> Path:
    root = Path(path).expanduser()
    if not root.is_dir():
        raise ValueError(f"there is no folder of skills at {root.absolute()}")
    return root
