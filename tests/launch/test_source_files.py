"""The files of a folder that are its code, and those that are its data."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from nemo_gym.launch._source_files import find_data_files, find_source_files, is_data_name, is_source

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
DATA = [
    "data/words.txt",
    "data/gold.json",
    "data/gold.jsonl",
    "data/shop.sqlite",
    "data/shop/tables.db",
    "data/rules.py",
    "datasets/answers.parquet",
    "answers.pkl",
    "board.npy",
    "gold.jsonl",
    "index.faiss",
    "lib.so",
    "picture.png",
    "tasks.csv",
    "data/city_index.json",
    "data/road_nodes.json",
    "data/statements.json",
]
OTHERS = [
    "tests/test_app.py",
    "test_app.py",
    "conftest.py",
    "data/README.md",
    "data/shop.sqlite-wal",
    "data/shop.sqlite-shm",
    "data/shop.db-journal",
    "data/server.log",
    "data/cache/answers.json",
    "data/state/games.json",
    "data/.lock",
    "data/writer.lock",
    "data/big.json.part",
    "data/gold.json~",
    "data/.gold.json.swp",
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


def data_names(folder: Path, most: int = 100) -> list[str]:
    return [str(path.relative_to(folder)) for path in find_data_files(folder, most)]


def test_python_prompts_and_templates_are_code_and_every_other_file_is_data(tmp_path: Path) -> None:
    for name in (*CODE, *DATA, *OTHERS):
        text = "env:\n  resources_servers:\n    env: {}" if name.startswith("configs") else "x"
        write(tmp_path, name, text)
    assert names(tmp_path) == set(CODE)
    assert sorted(data_names(tmp_path)) == sorted(DATA)


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_appears_while_servers_run_changes_nothing(tmp_path: Path, name: str) -> None:
    write(tmp_path, "app.py")
    before = names(tmp_path)
    write(tmp_path, name, "config_paths: [a.yaml]")
    assert names(tmp_path) == before
    assert data_names(tmp_path) == []


def test_a_large_text_is_data(tmp_path: Path) -> None:
    write(tmp_path, "words.txt", "x" * (1 << 20))
    write(tmp_path, "corpus.txt", "x" * ((1 << 20) + 1))
    write(tmp_path, "table.py", "x" * ((1 << 20) + 1))
    assert names(tmp_path) == {"words.txt", "table.py"}
    assert data_names(tmp_path) == ["corpus.txt"]


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
    assert data_names(tmp_path) == []
    assert not is_source(tmp_path / ("x" * 300 + ".py"))  # a name that no file system takes


TASK = '{"responses_create_params": {"input": "a"}}'


def test_task_rows_and_the_files_of_a_run_are_no_data(tmp_path: Path) -> None:
    write(tmp_path, "data/train.jsonl", TASK)
    (tmp_path / "data/train.jsonl.gz").write_bytes(gzip.compress(TASK.encode()))
    write(tmp_path, "data/train_gold.yaml", "- match: a")
    run = ["run.json", "aggregate_metrics.json", "index", "token_texts.json", "nodes.json", "report.html"]
    for name in run:
        write(tmp_path, f"data/out_{name}", '{"schema_version": 1}')
    write(tmp_path, "data/out.jsonl", '{"_ng_task_index":0,"_ng_rollout_index":0}')
    write(tmp_path, "data/out_failures.jsonl", '{"_ng_task_index":0,"_ng_rollout_index":0}')
    write(tmp_path, "data/out_torn_1.jsonl", '{"half')
    assert data_names(tmp_path) == []


def test_names_like_those_of_a_run_are_data_without_a_run(tmp_path: Path) -> None:
    named = [
        "data/a_run.json",
        "data/a_index.json",
        "data/a_nodes.json",
        "data/a_gold.yaml",
        "data/answers.jsonl",
    ]
    for name in named:
        write(tmp_path, name, '{"steps": 3}')
    (tmp_path / "data/damaged.jsonl.gz").write_bytes(b"no archive")
    assert data_names(tmp_path) == sorted([*named, "data/damaged.jsonl.gz"])


def test_the_first_files_in_the_order_of_names_count(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path, f"data/{number}.bin")
    assert data_names(tmp_path, 3) == ["data/0.bin", "data/1.bin", "data/2.bin"]


def test_every_text_of_a_folder_without_code_is_data(tmp_path: Path) -> None:
    for name in ("tokenizer.json", "chat_template.jinja", "vocab.txt"):
        write(tmp_path, name)
    assert data_names(tmp_path) == []
    assert len(find_data_files(tmp_path, 10, has_code=False)) == 3


def test_a_file_in_a_folder_of_data_is_known_by_its_name() -> None:
    assert is_data_name("resources_servers/mine/data/rules.py")
    assert not is_data_name("resources_servers/data/rules.py")
    assert not is_data_name("resources_servers/mine/rules.py")
