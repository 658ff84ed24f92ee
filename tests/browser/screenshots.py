"""`make screenshots`: pictures of every page of the viewer, light and dark, for docs/viewer.md.

They are WebP files of the system's Chromium. The runs are those of the demo, and rollouts with token ids against the
engine stub.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.testing.serving import LoopbackServers
from tests.browser.conftest import serving
from tests.browser.rows import failure_of, message, row_of, write_log, write_run
from tests.browser.visits import Visit

FOLDER = PARENT_DIR / "docs" / "screenshots"
SIZE = {"width": 1120, "height": 700}
QUALITY = 55
MOST_BYTES = 1_000_000
COLOURS = ("light", "dark")
PAUSE_MS = 400
"""For cards and pictures that a page reads after its first paint."""

CONFIGS = (
    "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml"
)
AGENT = "example_single_tool_call_simple_agent"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def pages_of(names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each picture and the link of its page. `names`: the number of each run."""
    demo, tokens, lost = names["demo"], names["tokens"], names["lost"]
    yield "runs", "#/"
    yield "overview", f"#/{demo}"
    yield "killed", f"#/{lost}"
    yield "rollouts", f"#/{demo}/rollouts?q=reward<1"
    yield "tasks", f"#/{demo}/rollouts?group=task&sort=mean"
    yield "task", f"#/{demo}/task/10"
    yield "rollout", f"#/{demo}/rollout/10/0"
    yield "raw", f"#/{demo}/rollout/10/0?tab=raw"
    yield "timing", f"#/{demo}/rollout/10/0?tab=timing"
    yield "json", f"#/{demo}/rollout/10/0?tab=json"
    yield "tokens", f"#/{tokens}/rollout/0/0?tab=tokens"
    yield "failures", f"#/{lost}/failures"
    yield "flags", f"#/{demo}/flags"
    yield "compare", f"#/compare/{lost}/{names['found']}"
    yield "configuration", f"#/{demo}/config"


def collect(command: list[str]) -> None:
    subprocess.run([str(Path(sys.executable).with_name("ng_e2e_collect_rollouts")), *command], check=True,
                   cwd=PARENT_DIR, stdout=subprocess.DEVNULL)  # fmt: skip


def make_runs(folder: Path) -> None:
    collect(["+config_paths=[configs/demo.yaml]", "++head_server.port=0", "+num_repeats=4",
             f"+output_jsonl_fpath={folder / 'demo'}.jsonl", "+num_repeats_add_seed=true"])  # fmt: skip
    _collect_tokens(folder)
    causes = (("rollout_timeout", "no answer in 600 s", "Raise +rollout_timeout_s."),
              ("judge_failed", "the judge answered HTTP 503", "Check the log of the judge."))  # fmt: skip
    failures = [
        {**failure_of(task, 0, message=text, remedy=remedy, peer="policy_model"), "_ng_failure_class": name}
        for task in range(12)
        for name, text, remedy in [causes[task % 3 == 0]]
    ]
    rows = [row_of(task, 0, [message("an answer")], task % 2) for task in range(12, 40)]
    log = (
        "INFO started",
        "WARNING the engine is busy",
        "ERROR no answer in 600 s",
        "ERROR the call is given up",
    )
    write_log(write_run(folder / "lost.jsonl", rows, failures), "policy_model", *log, planned=60)
    better = [row_of(task, 0, [message("an answer")], task % 5 > 0) for task in range(14, 43)]
    write_run(folder / "found.jsonl", better)


def _collect_tokens(folder: Path) -> None:
    """Collect rollouts with the ids and texts of their tokens."""
    tasks = folder / "tasks.json"
    asked = {"input": "What is the weather in Oslo, and what should I wear?", "tools": [WEATHER]}
    tasks.write_text(json.dumps({"responses_create_params": asked}) + "\n", encoding="utf-8")
    with LoopbackServers() as servers:
        engine = servers.enter(MockEngine(EngineOptions(model="demo")))
        collect([
            *(f"+config_paths=[{CONFIGS}]", f"+policy_base_url={engine.base_url}", "+policy_api_key=none"),
            *("+policy_model_name=demo", f"+agent_name={AGENT}", f"+input_jsonl_fpath={tasks}"),
            *(f"+output_jsonl_fpath={folder / 'tokens'}.jsonl", "++head_server.port=0", "+num_repeats=2"),
            "++policy_model.responses_api_models.vllm_model.return_token_id_information=true",
        ])  # fmt: skip


def take(browser: Any, address: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    for colours in COLOURS:
        context = browser.new_context(viewport=SIZE, color_scheme=colours)
        visit = Visit(context)
        visit.open(address)
        visit.page.locator("tbody tr").first.wait_for()
        for name, link in pages_of(_numbers_of_runs(visit, address)):
            visit.go(link)
            visit.page.locator("main").get_by_text("Reading…").first.wait_for(state="detached")
            visit.page.wait_for_timeout(PAUSE_MS)
            session = context.new_cdp_session(visit.page)
            taken = session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
            (FOLDER / f"{name}_{colours}.webp").write_bytes(base64.b64decode(taken["data"]))
        context.close()


def _numbers_of_runs(visit: Visit, address: str) -> dict[str, str]:
    runs = visit.page.request.get(f"{address.split('?')[0]}api/runs").json()["runs"]
    return {run["title"]: run["id"] for run in runs}


def main() -> None:
    from playwright.sync_api import sync_playwright

    os.chdir(PARENT_DIR)  # so that the pages show relative paths
    folder = Path("results") / "screenshots"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make_runs(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        with serving([folder]) as address:
            take(browser, address)
        browser.close()
    shutil.rmtree(folder)
    sizes = [path.stat().st_size for path in FOLDER.glob("*.webp")]
    sys.stdout.write(f"{len(sizes)} pictures, {sum(sizes):,} bytes\n")
    if sum(sizes) > MOST_BYTES:
        sys.exit(f"the pictures have more than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main()
