"""The code of servers as digests of files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.config.secrets import hide_secrets
from nemo_gym.config.servers import ServerInstance
from nemo_gym.launch.server_code import (
    describe_code,
    find_changed_modules,
    read_repository,
)
from nemo_gym.names import CODE_KEY


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def instance(root: Path, kind: Any = "resources_servers", name: str = "mine") -> ServerInstance:
    return ServerInstance(name, kind, name, root / kind / name, "app.py", {}, None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    write(
        root,
        "resources_servers/mine/app.py",
        "import scoring\nfrom common.rules import strict\nimport numpy, nemo_gym",
    )
    write(root, "resources_servers/mine/scoring.py", "")
    write(root, "resources_servers/mine/prompts/judge.txt", "Is it right?")
    write(root, "common/rules.py", "")
    write(root, "common/other.py", "")
    return root


def files(root: Path, kind: Any = "resources_servers", name: str = "mine") -> dict[str, str]:
    told = describe_code([instance(root, kind, name)], root)
    (server,) = told["servers"]
    assert server["name"] == name
    return dict(server["files"])


def test_a_server_is_its_folder_and_the_modules_that_it_imports_from_the_users_folder(root: Path) -> None:
    assert list(files(root)) == [
        "common/rules.py",
        "resources_servers/mine/app.py",
        "resources_servers/mine/prompts/judge.txt",
        "resources_servers/mine/scoring.py",
    ]


@pytest.mark.parametrize("kind", ["responses_api_agents", "responses_api_models", "environment_servers"])
def test_agents_and_models_count_alike(root: Path, kind: str) -> None:
    write(root, f"{kind}/other/app.py", "from common import rules")
    assert list(files(root, kind, "other")) == ["common/rules.py", f"{kind}/other/app.py"]


def test_data_that_a_server_may_read_counts_without_its_task_rows(root: Path) -> None:
    write(root, "resources_servers/mine/data/gold.json", "{}")
    write(root, "resources_servers/mine/data/raw.jsonl", '{"question": 1}')
    write(root, "shared/rubric.md", "Be strict.")
    before = files(root)
    declared = {
        "datasets": [{"jsonl_fpath": "resources_servers/mine/data/raw.jsonl"}],
        "rubric": "shared/rubric.md",
    }
    agent = ServerInstance(
        "agent", "responses_api_agents", "mine", root / "resources_servers/mine", "app.py", declared, None
    )
    told = describe_code([instance(root), agent], root)
    mine, other = (dict(server["files"]) for server in told["servers"])
    assert set(before) - set(mine) == {"resources_servers/mine/data/raw.jsonl"}
    assert set(other) - set(mine) == {"shared/rubric.md"}
    write(root, "resources_servers/mine/data/gold.json", "[]")
    changed = dict(describe_code([instance(root), agent], root)["servers"][0]["files"])
    assert {name for name in mine if mine[name] != changed[name]} == {"resources_servers/mine/data/gold.json"}


@pytest.mark.parametrize(
    "name", ["resources_servers/mine/app.py", "resources_servers/mine/prompts/judge.txt", "common/rules.py"]
)
def test_a_change_of_a_file_changes_its_digest_only(root: Path, name: str) -> None:
    before = files(root)
    write(root, name, (root / name).read_text() + "\n# changed")
    after = files(root)
    assert {path for path in before if before[path] != after[path]} == {name}


def test_a_server_with_the_name_of_a_secret_keeps_its_digests(root: Path) -> None:
    write(root, "resources_servers/api_key/app.py", "")
    told = describe_code([instance(root, name="api_key")], root)
    assert hide_secrets({CODE_KEY: told}) == {CODE_KEY: told}


def test_a_file_that_nothing_imports_is_not_code_of_a_server(root: Path) -> None:
    before = files(root)
    write(root, "common/other.py", "changed = True")
    assert files(root) == before


def test_a_copy_of_the_folders_is_the_same_code(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")
    assert files(tmp_path / "copy") == files(root)


def test_a_module_below_an_entry_of_the_search_path_is_the_users(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nemo_gym.launch.server_code import _user_search_path

    write(tmp_path, "library/own_library.py", "")
    write(root, "resources_servers/mine/app.py", "import own_library")
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    _user_search_path.cache_clear()
    try:
        assert "own_library.py" in files(root)
    finally:
        _user_search_path.cache_clear()


def test_only_python_files_that_changed_since_the_start_are_found(root: Path) -> None:
    told = describe_code([instance(root)], root)
    assert find_changed_modules(instance(root), root, told) == []
    write(root, "resources_servers/mine/state.txt", "written by the server")
    write(root, "resources_servers/mine/data/solution.py", "written by the server")
    assert find_changed_modules(instance(root), root, told) == []
    write(root, "resources_servers/mine/scoring.py", "changed = True")
    assert find_changed_modules(instance(root), root, told) == ["resources_servers/mine/scoring.py"]


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, env=environment)


def test_the_commit_of_the_users_repository_is_told_with_whether_files_differ(root: Path) -> None:
    assert describe_code([instance(root)], root)["repository"] is None
    git(root, "init")
    assert read_repository(root) is None  # no commit
    write(root, ".gitignore", "results\n")
    git(root, "add", ".")
    git(root, "commit", "-m", "one")
    told = describe_code([instance(root)], root)["repository"]
    assert (len(told["commit"]), told["dirty"]) == (40, False)
    write(root, "results/rows.jsonl", "{}")
    write(root, "notes.txt", "untracked, and no code")
    assert describe_code([instance(root)], root)["repository"] == told
    write(root, "resources_servers/mine/new.py", "")
    assert describe_code([instance(root)], root)["repository"] == {**told, "dirty": True}
    git(root, "add", ".")
    git(root, "commit", "-m", "two")
    write(root, "common/rules.py", "changed = True")
    changed = describe_code([instance(root)], root / "common")["repository"]
    assert changed["dirty"] is True
    assert changed["commit"] != told["commit"]


def test_the_gym_of_a_source_tells_its_servers_too() -> None:
    told = files(PARENT_DIR, name="mcqa")
    modules = (PARENT_DIR / "resources_servers" / "mcqa").glob("*.py")
    assert set(told) == {f"resources_servers/mcqa/{module.name}" for module in modules}
