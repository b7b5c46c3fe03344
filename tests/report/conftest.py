"""The browser that tests of the page share."""

import os
import shutil

import pytest

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser():
    """`$CHROMIUM`, or a browser on PATH; None for Playwright's own."""
    given = os.environ.get("CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


def without_browser(reason):
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"REQUIRE_BROWSER=1, but {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium with a profile of its own, which nothing installs."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        without_browser("playwright is not installed")
    path = find_browser()
    with sync_playwright() as playwright:
        if path is None and not os.path.exists(playwright.chromium.executable_path):  # noqa: PTH110
            without_browser("there is no browser: set $CHROMIUM, or run `make browser`")
        try:
            launched = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        except Error as error:
            without_browser(f"{path} does not start: {str(error).splitlines()[0]}")
        yield launched
        launched.close()
