"""The page in a real browser: its script runs, and loads the sections that come later."""

import os
import shutil
import subprocess

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def dom(url):
    """Return the document that headless Chromium has after loading a page."""
    if CHROMIUM is None:
        assert "CI" not in os.environ, "install Debian's package chromium"
        pytest.skip("needs chromium")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=10000",
    ]
    done = subprocess.run(
        [*command, "--dump-dom", url], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_the_script_loads_the_layers_and_nothing_of_a_row_is_executed(warehouse, served):
    url = served(warehouse).url
    layers = dom(f"{url}tables/trips/layers")
    assert layers.count("<svg") == 2
    assert "Loading …" not in layers
    rows = dom(f"{url}tables/trips/rows")
    assert "&lt;script&gt;alert" in rows
