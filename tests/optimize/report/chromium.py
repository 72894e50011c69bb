"""A page in headless Chromium, driven over a pipe: no server, no driver, no package.

with Chromium(folder) as browser:
    page = browser.open(path, width=390, dark=True)
    page.run("document.title")
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe --lang=en-US"
)


class Page:
    """A loaded page. `errors` is what its console complained of."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.errors: list[str] = []
        self.requests: list[str] = []

    def run(self, script: str) -> Any:
        """The value of an expression in the page. Raises RuntimeError with what it threw."""
        found = self.command("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", str(found)))
        return found["result"].get("value")

    def settled(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def screenshot(self, path: Path, limit: int = 9000) -> None:
        size = self.command("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], limit), "scale": 1}
        shot = self.command("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.command(method, self._session, **parameters)

    def hear(self, event: dict[str, Any]) -> None:
        said = event["params"]
        if event["method"] == "Runtime.exceptionThrown":
            self.errors.append(str(said["exceptionDetails"].get("exception", {}).get("description")))
        elif event["method"] == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(str(said["args"]))
        elif event["method"] == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.errors.append(said["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])


class Browser:
    """One browser process, spoken to in Chromium's debugging protocol."""

    def __init__(self, folder: Path) -> None:
        ours = [_high(end) for end in (*os.pipe(), *os.pipe())]
        read_commands, self._write, self._read, write_answers = ours
        command = [str(BINARY), *FLAGS.split(), f"--user-data-dir={folder}", "about:blank"]
        line = f"exec {shlex.join(command)} 3<&{read_commands} 4>&{write_answers}"
        self._process = subprocess.Popen(
            ["bash", "-c", line], pass_fds=(read_commands, write_answers), stderr=subprocess.DEVNULL
        )
        os.close(read_commands)
        os.close(write_answers)
        self._answers = self._messages()
        self._number = 0
        self._pages: dict[str, Page] = {}
        self._events: list[str] = []

    def open(self, path: Path, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """Load a file and wait for it."""
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.command(f"{domain}.enable")
        page.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.command("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        page.command("Page.navigate", url=path.absolute().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._hear(next(self._answers))
        page.settled()
        return page

    def command(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        for answer in self._answers:
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return dict(answer["result"])
            self._hear(answer)
        raise RuntimeError(f"Chromium ended before it answered {method}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _hear(self, event: dict[str, Any]) -> None:
        if "method" in event:
            self._events.append(event["method"])
            page = self._pages.get(event.get("sessionId", ""))
            if page is not None:
                page.hear(event)

    def _messages(self) -> Iterator[dict[str, Any]]:
        buffer = b""
        while chunk := os.read(self._read, 1 << 20):
            *whole, buffer = (buffer + chunk).split(b"\0")
            yield from map(json.loads, whole)


def _high(descriptor: int) -> int:
    """Above 3 and 4, which are Chromium's ends of the pipe."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 20)
    os.close(descriptor)
    return moved


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.close()
