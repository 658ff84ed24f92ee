"""The files of a folder that are its code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.launch._source_files import find_source_files, is_source

CODE = [
    "app.py",
    "scoring/rules.py",
    "scoring/tests_of_rules.py",
    "prompts/judge.txt",
    "prompts/judge.md",
    "prompts/few_shot.yaml",
    "rubric.json",
    "schema.toml",
    "templates/question.j2",
    "requirements.txt",
    "checker.js",
    "catalog.txt",
    "logging.yaml",
    "log.py",
    "cache.py",
]
OTHERS = [
    "tests/test_app.py",
    "test_app.py",
    "conftest.py",
    "data/example.jsonl",
    "data/words.txt",
    "tasks.jsonl",
    "tasks.csv",
    "results/out.json",
    "logs/server.txt",
    "server.log",
    "run_log.txt",
    "nohup.out",
    "cache/answers.json",
    "cache.json",
    "judge_cache.json",
    ".cache/x.py",
    ".venv/lib/x.py",
    "__pycache__/app.cpython-311.pyc",
    "__pycache__/old.py",
    "app.pyc",
    ".app.py.swp",
    ".app.py.swo",
    "app.py~",
    "#app.py#",
    ".#app.py",
    "4913",
    "app.py.orig",
    "app.py.bak",
    "README.md",
    "CHANGELOG.md",
    "configs/env.yaml",
    "picture.png",
    "state.sqlite",
    "tmp/x.py",
    "wandb/run.json",
]


def write(folder: Path, name: str, text: str = "x") -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in find_source_files(folder)}


def test_python_prompts_and_templates_are_code_and_nothing_else(tmp_path: Path) -> None:
    for name in (*CODE, *OTHERS):
        text = "env:\n  resources_servers:\n    env: {}" if name.startswith("configs") else "x"
        write(tmp_path, name, text)
    assert names(tmp_path) == set(CODE)


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_appears_while_servers_run_changes_nothing(tmp_path: Path, name: str) -> None:
    write(tmp_path, "app.py")
    before = names(tmp_path)
    write(tmp_path, name, "config_paths: [a.yaml]")
    assert names(tmp_path) == before


def test_a_large_text_is_data(tmp_path: Path) -> None:
    write(tmp_path, "words.txt", "x" * (1 << 20))
    write(tmp_path, "corpus.txt", "x" * ((1 << 20) + 1))
    write(tmp_path, "table.py", "x" * ((1 << 20) + 1))
    assert names(tmp_path) == {"words.txt", "table.py"}


def test_links_are_followed_once(tmp_path: Path) -> None:
    env = tmp_path / "env"
    write(env, "app.py")
    write(tmp_path, "shared/judge.txt")
    (env / "prompts").symlink_to(tmp_path / "shared")
    (env / "shared").mkdir()
    (env / "shared" / "above").symlink_to(env)
    (env / "broken.txt").symlink_to(tmp_path / "gone.txt")
    assert names(env) == {"app.py", "prompts/judge.txt"}


def test_what_is_no_file_is_no_code(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    assert names(tmp_path) == set()
    assert not is_source(tmp_path / ("x" * 300 + ".py"))  # a name that no file system takes
