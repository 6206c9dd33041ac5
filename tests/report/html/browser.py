"""A headless Chromium for the tests of a page: what it shows, what it complains about, what axe finds wrong.

Chromium and its driver are the system's (Debian: ``chromium`` and ``chromium-driver``), so that they fit each other.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from omnicfg.cache import make_once
from tests.patience import PATIENCE_S

REQUIRED: Final = "OMNICFG_BROWSER"
"""Set to ``required`` where a missing browser is a failure; so is ``CI``, which CI services set."""

AXE: Final = "0.1.8"
"""The release of axe-playwright-python, whose wheel carries axe-core 4.12 (https://github.com/dequelabs/axe-core)."""

_AXE_FILE: Final = "axe_playwright_python/axe.min.js"
_SIZE: Final = (1360, 760)


def need_browser() -> tuple[str, str]:
    """Chromium and its driver. Skips the test where they are missing, and fails it where they must not be."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    missing = " and ".join(name for name, found in (("chromium", browser), ("chromedriver", driver)) if not found)
    reason = f"missing: {missing}; on Debian: apt-get install chromium chromium-driver"
    if os.environ.get("CI") or os.environ.get(REQUIRED) == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


class Browser:
    """One window. What goes wrong in a page is kept until :meth:`complaints` tells it."""

    def __init__(self, driver: webdriver.Chrome, axe: Path) -> None:
        self.driver = driver
        self._axe = axe

    def open(self, page: Path) -> None:
        self.complaints()
        self.requests()
        self.media()
        self.size(*_SIZE)
        self.driver.get(page.resolve().as_uri())

    def size(self, width: int, height: int) -> None:
        """What is seen of a page, in pixels, whatever a window has around it."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def media(self, *, dark: bool = False, printed: bool = False) -> None:
        """Light or dark, on a screen or on paper. Motion is always reduced: nothing is to be waited for."""
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.command("Emulation.setEmulatedMedia", media="print" if printed else "screen", features=features)

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of the Chrome DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What each element shows that is to be seen."""
        seen = """
            const shown = [...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility());
            return shown.map((each) => each.innerText.trim());
            """
        return list(self.script(seen, selector))

    def wait_for(self, condition: str, *arguments: Any) -> None:
        """Until a JavaScript expression is true."""
        WebDriverWait(self.driver, PATIENCE_S, 0.02).until(lambda _: self.script(f"return {condition}", *arguments))

    def keys(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    def point_at(self, element: WebElement) -> None:
        ActionChains(self.driver).move_to_element(element).perform()

    def complaints(self) -> list[str]:
        """What the console has told since the last time: errors, and whatever the page's policy has refused."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """What has been asked for since the last time."""
        told = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        return [each["params"]["request"]["url"] for each in told if each["method"] == "Network.requestWillBeSent"]

    def _log(self, name: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(name))  # type: ignore[no-untyped-call]

    def violations(self) -> list[str]:
        """What axe finds wrong: WCAG 2.2 A and AA, and its best practices."""
        self.script(self._axe.read_text(encoding="utf-8") + "\nwindow.axe = axe;")
        found = self.driver.execute_async_script(
            """
            const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ["violations"]}).then(
              (result) => done(result.violations.flatMap((each) => each.nodes.map(
                (node) => `${each.id}: ${node.target} ${node.failureSummary}`))),
              (error) => done([String(error)]));
            """
        )
        return list(found)

    def picture(self) -> bytes:
        return self.driver.get_screenshot_as_png()


@contextlib.contextmanager
def running(cache: Path) -> Iterator[Browser]:
    """A browser for as long as it is needed; ``cache`` is where axe is kept."""
    chromium, chromedriver = need_browser()
    axe = make_once(cache / f"axe-{AXE}", _download_axe) / "axe.min.js"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in _words():
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(prefix="omnicfg-browser-") as profile:
        options.add_argument(f"--user-data-dir={profile}")
        driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        try:
            driver.set_script_timeout(2 * PATIENCE_S)
            yield Browser(driver, axe)
        finally:
            driver.quit()


def _words() -> Sequence[str]:
    words = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US"]
    words += ["--force-device-scale-factor=1", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE localhost"]
    # Chromium's own sandbox refuses to run as root, which containers of CI are.
    return [*words, "--no-sandbox"] if os.geteuid() == 0 else words


def _download_axe(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [*pip, "--dest", scratch, f"axe-playwright-python=={AXE}"], check=False, capture_output=True, text=True
        )
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            pytest.fail(f"pip cannot download axe-playwright-python {AXE}: {done.stderr.strip()}", pytrace=False)
        with zipfile.ZipFile(wheels[0]) as archive:
            (folder / "axe.min.js").write_bytes(archive.read(_AXE_FILE))
