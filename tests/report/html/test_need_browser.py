"""Without a browser the tests of the page say so: a skip at home, a failure in CI."""

from __future__ import annotations

import pytest

from tests.report.html.browser import REQUIRED, need_browser


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv(REQUIRED, raising=False)


def test_at_home_the_tests_are_skipped_with_the_reason() -> None:
    with pytest.raises(pytest.skip.Exception, match="missing: chromium and chromedriver; on Debian: apt-get install"):
        need_browser()


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), (REQUIRED, "required")])
def test_in_ci_they_fail(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(pytest.fail.Exception, match="apt-get install chromium chromium-driver"):
        need_browser()
