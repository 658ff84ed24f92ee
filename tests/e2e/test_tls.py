"""A gym whose servers speak TLS, started and used as a user does."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.client import Gym
from nemo_gym.config.current import configured
from nemo_gym.discovery_files import read_discovery, run_in
from nemo_gym.failures import TransportError
from nemo_gym.names import TOKEN_HEADER
from nemo_gym.server_utils import ServerClient, get_global_aiohttp_client
from nemo_gym.tls import context_trusting
from nemo_gym.transport.pools import close_transports
from perf.running_gym import RunningGym, running_gym
from tests.certificates import Authority, overrides_of
from tests.e2e.gym_run import read_lines

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml"
)
SCRIPTED = "++policy_model.responses_api_models.scripted_model.engine"
TASKS = PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl"
REWARDS = [0.0, 1.0, 1.0, 1.0, 1.0]
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return Authority(tmp_path_factory.mktemp("tls")).issue()


@pytest.fixture(scope="module")
def gym(tls: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGym]:
    overrides = [
        f"+config_paths=[{CONFIGS}]",
        f"{SCRIPTED}.policy=script",
        f"{SCRIPTED}.script=configs/demo/counter_script.yaml",
        *overrides_of(tls),
    ]
    with running_gym(overrides, str(tmp_path_factory.mktemp("gym"))) as gym:
        yield gym


def test_every_url_is_https_and_rollouts_go_through(gym: RunningGym) -> None:
    assert all(url.startswith("https://127.0.0.1:") for urls in gym.urls.values() for url in urls)
    rows = [json.loads(line) for line in TASKS.read_text().splitlines()]
    there = {"type": "responses_api_agents", "name": AGENT}
    rollouts = Gym.connect(Path(gym.folder)).rollouts([{**row, "agent_ref": there} for row in rows])
    assert sorted(rollout.reward or 0.0 for rollout in rollouts) == REWARDS


def test_a_call_without_tls_is_refused(gym: RunningGym) -> None:
    for urls in gym.urls.values():
        with pytest.raises(OSError, match=r"closed|reset"):
            urllib.request.urlopen(urls[0].replace("https", "http") + "/health", timeout=10)


def test_a_client_without_the_ca_refuses_the_gym(gym: RunningGym, tls: dict[str, str]) -> None:
    own = Gym.connect(Path(gym.folder)).address
    with pytest.raises(TransportError, match=r"the certificate .* is refused") as caught:
        Gym.connect(url=own.url, token=own.token).update_policy(1)
    assert caught.value.failure.code == "untrusted"
    Gym.connect(url=own.url, token=own.token, ca=tls["ca"]).update_policy(1)


def test_a_command_elsewhere_reaches_it_with_the_ca_only(
    gym: RunningGym, tls: dict[str, str], tmp_path: Path
) -> None:
    head = str(run_in(read_discovery(Path(gym.folder)))["head"])

    def collect(*keys: str) -> subprocess.CompletedProcess[str]:
        words = (
            str(BIN / "ng_collect_rollouts"),
            f"+agent_name={AGENT}",
            f"+input_jsonl_fpath={TASKS}",
            "+output_jsonl_fpath=rows.jsonl",
            f"+head_server.port={head.rpartition(':')[2]}",
            *keys,
        )
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    refused = collect()
    assert refused.returncode == 2
    assert "+tls.ca=" in refused.stderr
    done = collect(f"+tls.ca={tls['ca']}")
    assert done.returncode == 0, done.stderr
    assert sorted(row["reward"] for row in read_lines(tmp_path / "rows.jsonl")) == REWARDS


async def test_clients_of_trainers_and_environments_trust_the_configured_ca(
    gym: RunningGym, tls: dict[str, str]
) -> None:
    run = run_in(read_discovery(Path(gym.folder)))
    head = {"host": "127.0.0.1", "port": int(run["head"].rpartition(":")[2])}
    with configured({"head_server": head, "tls": {"ca": tls["ca"]}, "run_token": run["token"]}):
        client = await asyncio.to_thread(ServerClient.load_from_global_config)
        assert (await client.get(ENVIRONMENT, "/health")).ok
        async with get_global_aiohttp_client().get(gym.urls[ENVIRONMENT][0] + "/health") as answer:
            assert answer.status == 200
        await close_transports()


def test_session_cookies_come_back_over_tls_only(gym: RunningGym, tls: dict[str, str]) -> None:
    request = urllib.request.Request(
        gym.urls[ENVIRONMENT][0] + "/seed_session", TASKS.read_bytes().splitlines()[0]
    )
    request.add_header("content-type", "application/json")
    request.add_header(TOKEN_HEADER, run_in(read_discovery(Path(gym.folder)))["token"])
    with urllib.request.urlopen(request, context=context_trusting(tls["ca"])) as answer:
        assert answer.headers["set-cookie"].endswith("; Secure")


def test_the_key_is_in_no_argument_variable_log_or_file(gym: RunningGym, tls: dict[str, str]) -> None:
    key = Path(tls["key"]).read_text().splitlines()[1]
    processes = gym.processes()
    assert len(processes) > 4
    for process in processes:
        assert not [word for word in (*process.cmdline(), *process.environ().values()) if key in word]
    files = [path for path in Path(gym.folder).rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if key.encode() in path.read_bytes()]
