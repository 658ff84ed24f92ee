"""A page of the viewer in a browser, and a record of all that it does."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

_WATCH = """
window.ran = [];
window.violations = [];
for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = (...args) => window.ran.push([name, ...args]);
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
"""A script that runs before those of the page. Payloads call `alert`, or set `window.ran`."""


PATIENCE_MS = 120_000
"""For an answer on a busy machine. No test depends on how soon it comes."""
_SCROLL_MS = 100
_SCROLLS = PATIENCE_MS // _SCROLL_MS


class Visit:
    """One page in a context of its own."""

    def __init__(self, context: Any) -> None:
        self.page = context.new_page()
        self.requests: list[str] = []
        self._errors: list[str] = []
        self._origin = ""
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.add_init_script(_WATCH)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self._errors.append(str(error)))
        self.page.on("dialog", self._note_dialog)

    def _note_dialog(self, dialog: Any) -> None:
        self._errors.append(dialog.message)
        dialog.dismiss()

    def open(self, address: str, link: str = "#/") -> None:
        """Open the viewer at `address` (with its token, or of a file), and go to a link of it."""
        self.note_origin(address)
        self.page.goto(address)
        self.go(link)

    def note_origin(self, address: str) -> None:
        """Take `address` for that of the viewer."""
        self._origin = address.split("?")[0].rstrip("/")

    def go(self, link: str) -> None:
        self.page.goto(self._origin + ("" if self._origin.endswith(".html") else "/") + link)

    def text(self, selector: str = "main") -> str:
        return str(self.page.locator(selector).first.inner_text())

    def wait_for(self, text: str, selector: str = "main") -> None:
        """Wait until the first `selector` holds `text`."""
        self.page.locator(selector).filter(has_text=text).first.wait_for()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def show_all_items(self) -> None:
        """Unfold all items, and scroll to the end so that all are made."""
        self.press("e")
        unmade = self.page.locator(".transcript > :empty")
        for _ in range(_SCROLLS):  # items that unfold late move the end
            self.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
            if not unmade.count():
                return
            self.page.wait_for_timeout(_SCROLL_MS)
        raise AssertionError(f"{unmade.count()} items are not shown")

    def focus_page(self) -> None:
        """Leave the field that has the focus, as Escape does."""
        self.page.evaluate("document.activeElement?.blur()")

    def problems(self) -> list[str]:
        """Return errors of scripts, scripts of rows that ran, forbidden loads, and requests to other origins."""
        here = urlsplit(self._origin)
        others = [
            url
            for url in self.requests
            if urlsplit(url).scheme not in ("data", "blob")
            and (urlsplit(url).scheme, urlsplit(url).netloc) != (here.scheme, here.netloc)
        ]
        if self.page.is_closed():
            return self._errors + others
        found = self.page.evaluate("[window.ran, window.violations].map((list) => list.map(String)).flat()")
        return [*self._errors, *others, *map(str, found)]
