"""A secret in the configuration is found nowhere: not in a file of the run, an answer, a log or a command line.

The engine of this test even includes its key in its error messages.
"""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.testing.serving import LoopbackServers
from tests.e2e.gym_run import GymRun, check_books

CANARY = "canary-7f3a91c2"
HEADER_CANARY = "second-canary-b81e"
TOKEN_CANARY = "third-canary-90dd"
ENVIRONMENT = "example_session_state_mgmt"
TASKS = 6
ROUTES = (
    "/",
    "/_ng/stats",
    "/openapi.json",
    "/global_config_dict_yaml",
    "/server_instances",
    "/no_such_route",
)


class TellingEngine:
    """An engine that repeats what it was sent when it refuses, and holds one answer back until it is let go."""

    def __init__(self) -> None:
        self.mock = MockEngine(EngineOptions(api_key=CANARY))
        self.let_go = threading.Event()
        self.keys_seen: set[str] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = await receive()
        body = request.get("body", b"")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"] != "/version":  # asked for without a key
            self.keys_seen.add(headers.get("authorization", ""))
        if b"hold the line" in body:
            while not self.let_go.is_set():  # noqa: ASYNC110 - it is set by another thread
                await asyncio.sleep(0.02)
        if b"tell on me" in body:
            message = f"Incorrect API key provided: {CANARY}. Your request: {json.dumps(headers)}"
            answer = json.dumps({"error": {"message": message, "code": "invalid_api_key"}}).encode()
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": answer})
            return

        async def received() -> Any:
            return request

        await self.mock.app(scope, received, send)


@pytest.fixture
def engine() -> Iterator[tuple[TellingEngine, str]]:
    engine = TellingEngine()
    with LoopbackServers() as servers:
        yield engine, servers.serve(engine)
        engine.let_go.set()


def write_run(folder: Path, url: str) -> GymRun:
    examples = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
    example = json.loads(examples.read_text().splitlines()[0])
    asked = ["hold the line", "tell on me", *["count"] * (TASKS - 2)]
    rows = [
        {**example, "responses_create_params": {**example["responses_create_params"], "input": words}}
        for words in asked
    ]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    secrets = {
        "policy_base_url": f"{url}/v1",
        "policy_api_key": CANARY,
        "policy_model_name": "mock",
        "run_token": TOKEN_CANARY,
        "policy_model": {
            "responses_api_models": {"vllm_model": {"default_headers": {"x-team-api-key": HEADER_CANARY}}}
        },
    }
    configs = (
        f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
        "responses_api_models/vllm_model/configs/vllm_model.yaml"
    )
    return GymRun(
        folder,
        f"+config_paths=[{configs}]",
        f"+agent_name={ENVIRONMENT}_simple_agent",
        "+input_jsonl_fpath=tasks.jsonl",
        secrets=secrets,
    )


def answers_of(run: GymRun) -> Iterator[tuple[str, str]]:
    """Return the servers' answers without the token, by URL."""
    body = json.dumps({"input": "tell on me"}).encode()
    for name, server in run.servers().items():
        requests = [urllib.request.Request(server["url"] + route) for route in ROUTES]
        for route in ("/v1/responses", "/run", "/verify"):
            headers = {"content-type": "application/json"}
            requests.append(urllib.request.Request(server["url"] + route, data=body, headers=headers))
        for request in requests:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    told = answer.read()
            except urllib.error.HTTPError as error:
                told = error.read()
            yield f"{name} {request.selector}", told.decode()


def command_lines() -> Iterator[tuple[str, str]]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield str(path), path.read_text(errors="replace")
        except OSError:
            continue


def files_of(run: GymRun) -> Iterator[tuple[str, str]]:
    """Everything that the run wrote, but the files that exist to hand the token to its owner."""
    for path in sorted(run.folder.rglob("*")):
        if path.is_file() and path.name != "env.yaml":
            yield str(path), path.read_text(errors="replace")


def leaks(told: Iterator[tuple[str, str]], *secrets: str) -> list[str]:
    return [
        f"{where}: {text[max(0, text.find(s) - 80) :][:200]}"
        for where, text in told
        for s in secrets
        if s in text
    ]


def test_a_canary_is_found_nowhere(tmp_path: Path, engine: tuple[TellingEngine, str]) -> None:
    telling, url = engine
    with write_run(tmp_path, url) as run:
        run.wait_for(TASKS - 1)
        assert leaks(answers_of(run), CANARY, HEADER_CANARY, TOKEN_CANARY) == []
        assert leaks(command_lines(), CANARY, HEADER_CANARY, TOKEN_CANARY) == []
        shared = [
            path for path in run.folder.rglob("*") if path.is_file() and TOKEN_CANARY in path.read_text()
        ]
        assert {path.name for path in shared if path.stat().st_mode & 0o077} <= {"env.yaml"}
        telling.let_go.set()
        exit_code, _ = run.finish(60)
    assert exit_code == 3
    assert len(check_books(run, TASKS, 1)) == 1
    (failure,) = run.failures()
    assert "Incorrect API key provided" in failure["_ng_failure"]["message"], (
        "the engine's own words, without the key"
    )
    assert telling.keys_seen == {f"Bearer {CANARY}"}, "the key was in use"
    assert leaks(files_of(run), CANARY, HEADER_CANARY, TOKEN_CANARY) == []
