"""The stage `audits`: `gym audit` of the wheel's resources servers, unchanged, with their example rows.

Each is audited by one command in the shared environment, with right attempts from its example rollouts where it has
them. The figures are the findings of each environment: what its verifier accepts and must not, or rejects and must not.

The stage is bounded: one audit at a time, each with a limit of time and memory and in a process group that is killed at
its end. Servers that leave processes of their own group behind are excluded by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from tests.ecosystem_wheel import wheel
from tests.ecosystem_wheel.stages import OFFLINE, Finding, Workplace

LIMIT_S = 400
MEMORY_BYTES = 4 << 30
"""The private memory of each process."""
EXCLUDED = dict.fromkeys(
    ("code_fim", "code_gen", "evalplus", "longmt_eval", "spider2_lite", "swerl_gen", "wmt_translation"),
    "it starts a Ray cluster of its own at each start, whose processes outlive it",
)
"""Servers that are not audited, with the reason."""
RETRIED = ("has several configurations", "there is no server", "does not exist", "must be text or a list")
"""Parts of errors after which another line is tried."""
_NOWHERE = "http://not-set.invalid/v1"
_MODEL = f"{{entrypoint: app.py, base_url: '{_NOWHERE}', api_key: none, model: none}}"
_JUDGE = f"{{responses_api_models: {{vllm_model: {_MODEL}}}}}"
_ANSWERS = {"base_url": _NOWHERE, "api_key": "none", "model_name": "none"}
STAND_INS = {
    **dict.fromkeys(("judge_model", "bbq_judge_model", "aegis_v4_model", "user_simulator_model"), _JUDGE),
    **{
        f"{name}_{key}": value
        for name in ("judge", "user_sim", "user_model")
        for key, value in _ANSWERS.items()
    },
}
"""A judge that is out of reach, for configurations that leave it to the user, by the keys that they name."""
ROOT = wheel.CACHE / "audit_root"
"""Our package and model servers, and links to the wheel's other folders."""
CARDS = wheel.CACHE / "audits"
METADATA = wheel.CACHE / "metadata"
"""A folder with the metadata of our package, which tell its requirements where it is not installed."""


def audits(workplace: Workplace, wanted: Sequence[str]) -> list[Finding]:
    """Audit every environment, or those that `wanted` names, and keep their cards in the cache."""
    CARDS.mkdir(exist_ok=True)
    lay_root()
    files = distribution("nemo-gym").files or ()
    for file in [file for file in files if file.parent.name.endswith(".dist-info")]:
        (METADATA / file).parent.mkdir(parents=True, exist_ok=True)
        (METADATA / file).write_bytes(Path(str(file.locate())).read_bytes())
    names = [path.parent.name for path in sorted(wheel.TREE.glob("resources_servers/*/app.py"))]
    return [_audit(workplace, name) for name in names if not wanted or name in wanted]


def lay_root() -> None:
    """Lay out the root: servers of others import one another, so their folders stand together."""
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    for name in ("resources_servers", "responses_api_agents", "environment_servers", "environments"):
        (ROOT / name).symlink_to(wheel.TREE / name, target_is_directory=True)
    (ROOT / "responses_api_models").symlink_to(
        wheel.REPOSITORY / "responses_api_models", target_is_directory=True
    )
    shutil.copytree(wheel.TREE / "nemo_gym", ROOT / "nemo_gym")


def list_lines(name: str, output: Path) -> Iterator[list[str]]:
    """Yield the command lines to try: the environment by name, by its file, and with a judge that is out of reach."""
    folder = ROOT / "resources_servers" / name
    rows, rollouts = folder / "data" / "example.jsonl", folder / "data" / "example_rollouts.jsonl"
    gold = [f"+gold_rollouts={rollouts}"] if rollouts.is_file() else []
    given = ["-i", str(rows), "-o", str(output), *gold, "--json", "+placement=inline", "+restart=false"]
    options = [*given, "++head_server.port=0", "+num_samples_in_parallel=4"]
    yield ["audit", "--resources-server", name, *options]
    configurations = sorted(
        (folder / "configs").glob("*.yaml"), key=lambda file: (file.stem != name, file.name)
    )
    for file in configurations[:1]:
        yield ["audit", "--config", str(file), *options]
        text = file.read_text(encoding="utf-8")
        stand_ins = [
            f"++{key}={value}" for key, value in STAND_INS.items() if key in text and f"\n{key}:" not in text
        ]
        yield ["audit", "--config", str(file), *options, *stand_ins]


def _audit(workplace: Workplace, name: str) -> Finding:
    if reason := EXCLUDED.get(name):
        print(f"{name}: excluded: {reason}", file=sys.stderr, flush=True)
        return Finding(name, [workplace.cause(reason)])
    said = ""
    with tempfile.TemporaryDirectory() as folder:
        for number, line in enumerate(list_lines(name, Path(folder) / "out")):
            output, errors = _run(workplace, line, Path(folder) / str(number))
            if '"classes"' in output:
                card = json.loads(output)
                (CARDS / f"{name}.json").write_text(output, encoding="utf-8")
                print(f"{name}: {summarize(card)}", file=sys.stderr, flush=True)
                return Finding(name)
            said = output + errors
            if not any(sign in said for sign in RETRIED):
                break
    print(f"{name}: no card: {said[-600:]}", file=sys.stderr, flush=True)
    return Finding(name, [workplace.cause(said)])


def _run(workplace: Workplace, line: Sequence[str], folder: Path) -> tuple[str, str]:
    """Return the output of the command, which may be a card, and its errors."""
    (folder / "runtime").mkdir(parents=True, mode=0o700)
    environment = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{METADATA}",
        "XDG_RUNTIME_DIR": str(folder / "runtime"),
    }
    with subprocess.Popen(
        [str(workplace.python), "-c", "from nemo_gym.cli import main; main()", *line],
        cwd=folder, env={**os.environ, **OFFLINE, **environment}, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_limit_memory,
    ) as process:  # fmt: skip
        try:
            return process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            _end_group(process.pid)
            return "", f"{process.communicate()[1]}\nthe audit takes over {LIMIT_S} s"
        finally:
            _end_group(process.pid)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def summarize(card: Mapping[str, Any]) -> str:
    """Return the findings of a card in one line."""
    wrong = [f"{each['wrong']}/{each['probes']} {each['class']}" for each in card["classes"] if each["wrong"]]
    probes = sum(each["probes"] for each in card["classes"])
    failed = sum(each["failed"] for each in card["classes"])
    return f"{probes} probes, {failed} failed; " + ("; ".join(wrong) or "nothing wrong")
