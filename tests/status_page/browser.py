"""A real browser in a thread of its own: Playwright keeps an event loop running where it is used, and tests need theirs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright, Response, sync_playwright

Result = TypeVar("Result")

PROGRAM = shutil.which("chromium")
MISSING = "needs Chromium: apt-get install chromium"

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

PATIENCE = 60_000
"""Milliseconds after which something that ought to be seen will not be."""


NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
"""Chromium drops connections under way when a container starts or ends on this machine. The page must bear it."""


def _go(page: Page, url: str) -> None:
    deadline = time.monotonic() + PATIENCE / 1000
    while True:
        try:
            page.goto(url)
            return
        except Error as error:
            if NETWORK_CHANGED not in error.message or time.monotonic() > deadline:
                raise


class Visit:
    """One page in an empty profile. `see` does something with it in the browser's thread."""

    def __init__(self, threads: ThreadPoolExecutor, browser: Browser, *, keeps: bool, **options: Any) -> None:
        self._threads = threads
        self._keeps = keeps
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.errors: list[str] = []
        self.bodies: dict[str, bytes] = {}
        self._context, self._page = threads.submit(self._open, browser, options).result()

    def _open(self, browser: Browser, options: dict[str, Any]) -> tuple[BrowserContext, Page]:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"} | options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda said: self._print_error(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self._err(str(error)))
        if self._keeps:
            page.on("requestfinished", lambda request: self._keep(request.response()))
        return context, page

    def _print_error(self, text: str) -> None:
        if NETWORK_CHANGED not in text:
            self.complaints.append(text)

    def _err(self, text: str) -> None:
        """What a script did not expect is a complaint, too."""
        self.errors.append(text)
        self.complaints.append(text)

    def _keep(self, response: Response | None) -> None:
        if response is not None and "/events" not in response.url:
            self.bodies[response.url] = response.body()

    def see(self, look: Callable[[Page], Result]) -> Result:
        return self._threads.submit(look, self._page).result()

    def go(self, url: str, *, released: int | None = None) -> Visit:
        """Open the page and wait until it shows the study, or so many periods of it."""
        self.see(lambda page: _go(page, url))
        self.wait(f'html[data-shown="{released}"]' if released is not None else "html[data-shown]")
        return self

    def wait(self, selector: str) -> None:
        self.see(lambda page: page.wait_for_selector(selector, state="attached"))

    def wait_text(self, selector: str, text: str) -> None:
        # Not by a function of the page: its Content-Security-Policy lets nobody evaluate text, tests included.
        self.see(lambda page: page.locator(selector).filter(has_text=text).first.wait_for(state="attached"))

    def text(self, selector: str) -> str:
        return self.see(lambda page: page.inner_text(selector))

    def texts(self, selector: str) -> list[str]:
        return self.see(lambda page: page.locator(selector).all_inner_texts())

    def click(self, selector: str) -> None:
        """Once it can be clicked. In one go: what is replaced by newer news between a button's down and up gets no click."""

        def click(page: Page) -> None:
            page.click(selector, trial=True)
            page.locator(selector).first.dispatch_event("click")

        self.see(click)

    def until(self, holds: str | Callable[[], bool]) -> None:
        """Wait until a script says so in the page, or a function here."""
        # Asked again and again, because the page's Content-Security-Policy allows no `wait_for_function`.
        deadline = time.monotonic() + PATIENCE / 1000
        while not (self.ask(holds) if isinstance(holds, str) else holds()):
            assert time.monotonic() < deadline, holds
            self.see(lambda page: page.wait_for_timeout(20))  # the browser goes on meanwhile

    def press(self, *keys: str) -> None:
        for key in keys:
            self.see(lambda page, key=key: page.keyboard.press(key))  # type: ignore[misc]

    def ask(self, script: str, argument: object = None) -> Any:
        return self.see(lambda page: page.evaluate(script, argument))

    def picture(self, path: Path, *, whole: bool = True) -> None:
        self.see(lambda page: page.screenshot(path=path, full_page=whole))

    def close(self) -> None:
        self._threads.submit(self._context.close).result()


class Chromium:
    """The browser; starts when it is first needed."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="browser")
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._visits: list[Visit] = []

    def visit(self, *, keeps: bool = False, **options: Any) -> Visit:
        """A new page, which may keep all it is sent; `options` as of Playwright's `new_context`."""
        if self._browser is None:
            self._browser = self._threads.submit(self._start).result()
        self._visits.append(Visit(self._threads, self._browser, keeps=keeps, **options))
        return self._visits[-1]

    def _start(self) -> Browser:
        self._playwright = sync_playwright().start()
        return self._playwright.chromium.launch(executable_path=PROGRAM, args=ARGUMENTS)

    def leave(self) -> None:
        """Close all pages."""
        while self._visits:
            self._visits.pop().close()

    def close(self) -> None:
        self.leave()
        if self._browser is not None and self._playwright is not None:
            self._threads.submit(self._browser.close).result()
            self._threads.submit(self._playwright.stop).result()
        self._threads.shutdown()
