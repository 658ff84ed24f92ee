"""A real vLLM on a CPU with a tiny random model: `make test-vllm` builds what it needs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR

VENV = PARENT_DIR / ".venvs" / "vllm"
MODEL = "tiny"
CONTEXT = 4096
START_TIMEOUT_S = 900


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("NEMO_GYM_TEST_VLLM"):
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="needs a real vLLM: make test-vllm"))


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with random weights, which are the same every time."""
    model = tmp_path_factory.mktemp("vllm") / "model"
    subprocess.run([VENV / "bin" / "python", Path(__file__).parent / "make_model.py", model], check=True)
    return model


@pytest.fixture(scope="session")
def vllm_url(model_folder: Path) -> Iterator[str]:
    """The base URL of a running vLLM: the one that NEMO_GYM_TEST_VLLM_URL names, or one started for these tests."""
    running = os.environ.get("NEMO_GYM_TEST_VLLM_URL")
    if running:
        yield running
        return
    model, log = model_folder, model_folder.parent / "vllm.log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command: list[str | Path] = [VENV / "bin" / "vllm", "serve", model, "--served-model-name", MODEL]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    command += ["--max-num-seqs", "64", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    command += ["--structured-outputs-config", '{"disable_any_whitespace": true, "backend": "xgrammar"}']
    command += ["--enable-scale-out"]  # token ids in and out
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    environment["VLLM_SERVER_DEV_MODE"] = "1"  # /collective_rpc
    with log.open("wb") as output:
        engine = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/health", engine, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        engine.terminate()
        try:
            engine.wait(30)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()


def _wait_until_ready(url: str, engine: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if engine.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"vLLM did not start:\n{log.read_text()[-3000:]}")
