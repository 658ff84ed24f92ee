"""The texts of a run's token ids are written beside its rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.run.token_texts import models_with_ids, unknown_ids, write_token_texts
from nemo_gym.tokens.vocabulary import read_token_texts
from nemo_gym.transport import Caller, Directory, InMemoryTransport

CONFIG: dict[str, Any] = {
    "policy": {"responses_api_models": {"vllm_model": {"return_token_id_information": True}}},
    "judge": {"responses_api_models": {"vllm_model": {"return_token_id_information": False}}},
    "agent": {"responses_api_agents": {"simple_agent": {}}},
}


def row_with(prompt: list[int], generated: list[int]) -> dict[str, Any]:
    names = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
    ids = dict(zip(names, (prompt, generated, [-0.5] * len(generated)), strict=True))
    return {"_ng_task_index": 0, "_ng_rollout_index": 0, "response": {"output": [{"type": "message", **ids}]}}


@pytest.fixture
def files(tmp_path: Path) -> RunFiles:
    files = RunFiles(tmp_path, "out")
    rows = [row_with([1, 2], [3]), row_with([1, 2, 3, 4], [5])]
    files.rows.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return files


class TextServer:
    """A model server that gives texts, as an ASGI app."""

    def __init__(self, texts: Mapping[str, str], status: int = 200, instead: bytes | None = None) -> None:
        self.asked: list[list[int]] = []
        self._texts = texts
        self._instead = instead
        self._status = status

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (scope["path"], dict(scope["headers"])[b"x-ng-token"]) == ("/token_texts", b"secret")
        ids = orjson.loads((await receive())["body"])["ids"]
        self.asked.append(ids)
        texts = {str(token): self._texts[str(token)] for token in ids if str(token) in self._texts}
        await send({"type": "http.response.start", "status": self._status, "headers": []})
        await send({"type": "http.response.body", "body": self._instead or orjson.dumps(texts)})


async def write(files: RunFiles, **servers: TextServer) -> None:
    transport = InMemoryTransport({f"http://{name}": server for name, server in servers.items()})
    caller = Caller(Directory({name: [f"http://{name}"] for name in servers}), transport, token="secret")
    await write_token_texts(files, caller, list(servers))


def test_models_that_record_ids_are_asked() -> None:
    assert list(models_with_ids({"policy", "judge", "agent", "gone"}, CONFIG)) == ["policy"]


async def test_texts_of_all_ids_are_written_once(files: RunFiles) -> None:
    server = TextServer({"1": "a", "2": " b", "3": "\n", "5": "ä", "9": "other"})
    await write(files, policy=server)
    assert server.asked == [[1, 2, 3, 4, 5]]
    assert orjson.loads(files.token_texts.read_bytes()) == {"1": "a", "2": " b", "3": "\n", "5": "ä"}
    assert unknown_ids(files.rows, files.token_texts) == [4]
    await write(files, policy=TextServer({"4": "later"}))
    vocabulary = read_token_texts(files.token_texts)
    assert [vocabulary.get(token) for token in (4, 5, 9)] == [b"later", "ä".encode(), None]


async def test_ids_on_which_models_differ_have_no_text(files: RunFiles) -> None:
    await write(files, one=TextServer({"1": "a", "2": "b"}), two=TextServer({"1": "a", "2": "c", "3": "d"}))
    assert orjson.loads(files.token_texts.read_bytes()) == {"1": "a", "3": "d"}


async def test_a_server_without_texts_is_no_failure(files: RunFiles) -> None:
    await write(files, policy=TextServer({}, status=404))
    assert not files.token_texts.exists()


@pytest.mark.parametrize("instead", [b"<html>", b"[1]"])
async def test_an_answer_of_another_form_is_no_failure(files: RunFiles, instead: bytes) -> None:
    await write(files, one=TextServer({}, instead=instead), two=TextServer({"1": "a"}))
    assert orjson.loads(files.token_texts.read_bytes()) == {"1": "a"}


@pytest.mark.parametrize("content", [b"", b"torn{", b"[1]", b'{"x": "y"}', b'{"1": 2}'])
def test_a_damaged_file_has_no_texts(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "texts.json"
    path.write_bytes(content)
    assert len(read_token_texts(path)) == 0
