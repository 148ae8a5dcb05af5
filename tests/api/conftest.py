"""Tests of the REST API: one daemon a file, with a sandbox that is shared by what only reads."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))

import cli_daemon  # noqa: E402
import leftovers  # noqa: E402


@pytest.fixture(scope="module")
def api(request):
    """A daemon on the small root, or on IMAGE of the module; leaves nothing behind."""
    daemon = cli_daemon.Daemon(image=getattr(request.module, "IMAGE", cli_daemon.BUSYBOX),
                               args=getattr(request.module, "ARGS", ()))
    try:
        yield daemon
        where = (daemon.data_dir, daemon.run_dir, daemon.instance, daemon.uplink)
        daemon.stop()
        leftovers.assert_gone(*where)
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def box(api):
    """A started sandbox that tests may use but not stop."""
    sb = api.create(autoStopInterval=0)
    assert sb["state"] == "started", sb
    yield sb["id"]
    api.delete(f"/sandbox/{sb['id']}")


@pytest.fixture
def make(api):
    """Creates sandboxes that end with the test."""
    made = []

    def create(**fields):
        sb = api.create(**{"autoStopInterval": 0, **fields})
        made.append(sb["id"])
        return sb
    yield create
    for sandbox in made:
        api.request("DELETE", f"/sandbox/{sandbox}")
