"""The names of foreign environments."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.foreign.host import kinds as modules
from nemo_gym.sources.foreign.kinds import KINDS, ForeignKind, read_name

FOLDER = Path(modules.__file__).parent


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_has_a_module_and_a_lock(kind: ForeignKind) -> None:
    assert (FOLDER / f"{kind.name}.py").is_file()
    assert kind.lock.is_file()
    named = read_name(kind.example)
    assert named is not None
    assert named.kind is kind


def test_a_name_has_its_kind_before_a_colon() -> None:
    named = read_name("textarena:Mastermind-v0")
    assert named is not None
    assert (named.kind.name, named.name, named.block) == (
        "textarena",
        "Mastermind-v0",
        "textarena_mastermind_v0",
    )
    assert str(named) == "textarena:Mastermind-v0"


@pytest.mark.parametrize("text", ["mcqa", "http://localhost/v1", "./folder", "textarena:", "C:\\tasks", ""])
def test_other_texts_are_no_names(text: str) -> None:
    assert read_name(text) is None


def test_an_unknown_kind_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"no kind of environments 'textarea'.*textarena"):
        read_name("textarea:Nim-v0")


def test_a_name_may_be_a_folder_where_the_kind_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-game").mkdir()
    for text in ("my-game", "./my-game", str(tmp_path / "my-game")):
        named = read_name(f"verifiers:{text}")
        assert named is not None
        assert (named.folder, named.block) == (tmp_path / "my-game", "verifiers_my_game")
    installed = read_name("verifiers:openenv")
    assert installed is not None
    assert (installed.folder, installed.block) == (None, "verifiers_openenv")
    absent = read_name("verifiers:there/is/none")
    assert absent is not None
    assert absent.folder == tmp_path / "there/is/none"
    assert read_name(str(named)) == named


@pytest.mark.parametrize("name", ["tasks.py", "tasks.py@sums", "a/tasks.py@sums"])
def test_a_name_may_be_a_file_with_a_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = read_name(f"inspect:{name}")
    assert named is not None
    file, _, task = name.partition("@")
    assert (named.name, named.file) == (str(tmp_path / name), tmp_path / file)
    assert named.block == f"inspect_tasks{'_sums' if task else ''}"
    assert named._replace(name="/a/sums.py@sums").block == "inspect_sums"


def test_a_name_of_a_package_is_no_file() -> None:
    named = read_name("inspect:inspect_evals/mind2web_sc")
    assert named is not None
    assert (named.name, named.file) == ("inspect_evals/mind2web_sc", None)


def test_the_server_of_a_kind_may_be_a_url() -> None:
    named = read_name("ors:https://Envs.example:8443/maths/")
    assert named is not None
    assert (named.name, named.is_remote) == ("https://Envs.example:8443/maths", True)
    assert named.block == "ors_envs_example_8443_maths"
    folder = read_name("ors:envs/maths")
    assert folder is not None
    assert (folder.name, folder.is_remote) == (str(Path("envs/maths").resolve()), False)
    other = read_name("openenv:http://localhost")
    assert other is not None
    assert not other.is_remote


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http://:80",
        "http://a:b@c",
        "http://c:x",
        "http://c:0",
        "http://c/?q=1",
        "http://c#d",
        "http://c d",
    ],
)
def test_a_url_is_a_plain_address(url: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        read_name(f"ors:{url}")
