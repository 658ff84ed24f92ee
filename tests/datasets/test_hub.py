from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym.cli import download_dataset_from_hf, upload_dataset_to_hf
from nemo_gym.datasets.hub import HuggingFaceHub
from nemo_gym.failures import ConfigError, TransportError
from nemo_gym.testing.serving import LoopbackServers
from tests.datasets.hub_stand_in import HubStandIn
from tests.datasets.rows import row, write

pytest.importorskip("huggingface_hub", reason="needs the extra `hub`")


@pytest.fixture
def stand_in() -> HubStandIn:
    return HubStandIn()


@pytest.fixture
def url(stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with LoopbackServers() as servers:
        yield servers.serve(stand_in.app)


def test_an_uploaded_dataset_can_be_downloaded(stand_in: HubStandIn, url: str, tmp_path: Path) -> None:
    hub = HuggingFaceHub("hf_good", url)
    path = write(tmp_path / "tasks.jsonl", row("a"), row("b"))
    committed = hub.upload(path, "me/tasks", "data/train.jsonl", private=True, message="Two tasks")
    assert committed.startswith(f"{url}/datasets/me/tasks/commit/")
    assert stand_in.repositories["me/tasks"]["data/train.jsonl"] == path.read_bytes()
    assert stand_in.private == {"me/tasks"}
    assert stand_in.messages == ["Two tasks"]
    fetched = hub.fetch("me/tasks", "data/train.jsonl", tmp_path / "new" / "train.jsonl")
    assert fetched == tmp_path / "new" / "train.jsonl"
    assert fetched.read_bytes() == path.read_bytes()
    assert [one.name for one in fetched.parent.iterdir()] == ["train.jsonl"], "no cache is left beside it"


def test_a_repository_that_is_there_gets_another_file(stand_in: HubStandIn, url: str, tmp_path: Path) -> None:
    stand_in.repositories["me/tasks"] = {"README.md": b"hello"}
    HuggingFaceHub("hf_good", url).upload(write(tmp_path / "a.jsonl", row("a")), "me/tasks", "a.jsonl")
    assert stand_in.repositories["me/tasks"].keys() == {"README.md", "a.jsonl"}


def test_without_a_name_the_only_rows_are_taken(stand_in: HubStandIn, url: str, tmp_path: Path) -> None:
    files = stand_in.repositories["me/tasks"] = {"README.md": b"hello", "rows.jsonl": b"{}\n"}
    hub = HuggingFaceHub(None, url)
    assert hub.fetch("me/tasks", None, tmp_path / "rows.jsonl").read_bytes() == b"{}\n"
    files["more.jsonl"] = b""
    with pytest.raises(ConfigError, match=r"2 JSONL files: more\.jsonl, rows\.jsonl"):
        hub.fetch("me/tasks", None, tmp_path / "rows.jsonl")


@pytest.mark.parametrize(
    ("repository", "file"),
    [("me/nothing", "a.jsonl"), ("me/tasks", "missing.jsonl"), ("me/secret", "a.jsonl")],
)
def test_a_refused_download_is_a_config_error(
    stand_in: HubStandIn, url: str, tmp_path: Path, repository: str, file: str
) -> None:
    stand_in.repositories |= {"me/tasks": {}, "me/secret": {"a.jsonl": b"{}"}}
    stand_in.private.add("me/secret")
    with pytest.raises(ConfigError, match=f"cannot fetch {file} from {repository}") as caught:
        HuggingFaceHub("hf_bad", url).fetch(repository, file, tmp_path / "a.jsonl")
    assert "token" in (caught.value.failure.remedy or "")
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_hub_is_a_transport_error(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match=r"cannot upload a\.jsonl to me/tasks"):
        HuggingFaceHub("x", "http://127.0.0.1:9").upload(write(tmp_path / "a.jsonl"), "me/tasks", "a.jsonl")


def test_the_commands(
    stand_in: HubStandIn,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", url)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "tasks.jsonl", row("a"), row("b"))
    (tmp_path / "env.yaml").write_text("hf_token: hf_good\n")
    with pytest.raises(SystemExit) as ended:
        upload_dataset_to_hf.main(["+input_jsonl_fpath=tasks.jsonl", "+repo_id=me/tasks"])
    assert (ended.value.code, capsys.readouterr().out.startswith("2 rows: ")) == (0, True)
    with pytest.raises(SystemExit) as ended:
        download_dataset_from_hf.main(["+repo_id=me/tasks", "+output_fpath=got/tasks.jsonl"])
    assert (ended.value.code, capsys.readouterr().out) == (0, "got/tasks.jsonl: 2 rows\n")
    write(tmp_path / "tasks.jsonl", row("a"), b"[1]")
    with pytest.raises(SystemExit) as ended:
        upload_dataset_to_hf.main(["+input_jsonl_fpath=tasks.jsonl", "+repo_id=me/other"])
    assert ended.value.code == 2
    assert "tasks.jsonl:2: the row must be a JSON object" in capsys.readouterr().err
    assert "me/other" not in stand_in.repositories
