"""The viewer as its users start it: a process that prints an address."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

from aiohttp import ClientSession, CookieJar

ROW = b'{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1.0,"response":{}}\n'


async def test_the_printed_address_opens_the_page_and_a_signal_ends_it(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_bytes(ROW)
    command = [sys.executable, "-m", "nemo_gym.cli.view", f"+places=[{tmp_path}]", "+json=true"]
    viewer = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert viewer.stdout is not None
    url = json.loads(await viewer.stdout.readline())["url"]
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
        async with browser.get(url) as page:
            assert page.status == 200
            assert "token" not in str(page.url)
            assert "<!doctype html>" in (await page.text()).lower()
        async with browser.get(page.url.with_path("/api/runs")) as runs:
            assert [run["title"] for run in (await runs.json())["runs"]] == ["out"]
    viewer.send_signal(signal.SIGTERM)
    assert await viewer.wait() == 0


async def test_an_address_that_cannot_be_used_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_bytes(ROW)
    command = [sys.executable, "-m", "nemo_gym.cli.view", f"+places=[{tmp_path}]", "+host=192.0.2.1"]
    viewer = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    _, printed = await viewer.communicate()
    assert viewer.returncode == 2
    assert b"Cannot listen on 192.0.2.1:0: Cannot assign requested address.\n" in printed
