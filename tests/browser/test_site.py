"""The documentation as a site, in a headless Chromium: every link works, and the search finds a page."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from nemo_gym import PARENT_DIR

ZENSICAL = Path(sys.executable).with_name("zensical")
LEAST_PAGES = 30
ARRIVAL_TIMEOUT_MS = 60_000


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the built site."""
    if not ZENSICAL.exists():
        pytest.skip("needs Zensical: make docs")
    build = [str(ZENSICAL), "build", "--strict", "--clean"]
    subprocess.run(build, cwd=PARENT_DIR, check=True, stdout=subprocess.DEVNULL)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PARENT_DIR / "site")))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(ARRIVAL_TIMEOUT_MS)
    yield page
    context.close()


def test_no_link_is_broken_and_nothing_comes_from_elsewhere(site: str, page: Any) -> None:
    foreign = list[str]()
    host = urlsplit(site).netloc
    page.on(
        "request",
        lambda request: None if urlsplit(request.url).netloc in (host, "") else foreign.append(request.url),
    )
    waiting, seen, broken = [site], {site}, list[str]()
    anchors: dict[str, set[str]] = {}
    wanted = set[tuple[str, str]]()
    while waiting:
        address = waiting.pop()
        answer = page.goto(address, wait_until="domcontentloaded")
        if answer is None or not answer.ok:
            broken.append(address)
            continue
        anchors[address] = set(page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)"))
        for link in page.evaluate("[...document.querySelectorAll('a[href]')].map((each) => each.href)"):
            target, anchor = urldefrag(urljoin(address, link))
            if urlsplit(target).netloc != host:
                continue
            if anchor:
                wanted.add((target, anchor))
            if target not in seen:
                seen.add(target)
                is_page = target.endswith("/")
                if is_page:
                    waiting.append(target)
                elif not page.request.get(target).ok:
                    broken.append(target)
    lost = [f"{target}#{anchor}" for target, anchor in wanted if anchor not in anchors.get(target, {anchor})]
    assert broken == []
    assert sorted(lost) == []
    assert foreign == []
    assert len(anchors) >= LEAST_PAGES


def test_the_search_finds_a_word_of_another_page(site: str, page: Any) -> None:
    page.goto(site)
    assert "detokenize" not in page.inner_text("body")
    page.keyboard.press("/")
    page.keyboard.type("detoken", delay=50)
    page.get_by_text("detokenize").first.wait_for()
