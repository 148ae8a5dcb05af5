"""Crash tests: a daemon is killed and what it promised is looked for."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.dirname(__file__))

import cli_daemon  # noqa: E402


@pytest.fixture
def daemon():
    with cli_daemon.Daemon(on_exit="keep", start=False) as d:
        yield d


@pytest.fixture
def soak():
    return os.environ.get("CAISSON_SOAK") == "1"
