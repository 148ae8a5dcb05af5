"""Timers against the real clock. The minutes are real, so all but the first are of `make soak`."""
import http.client
import os
import threading
import time

import pytest

from resthelp import wait_for

soak = pytest.mark.skipif(os.environ.get("CAISSON_SOAK") != "1", reason="takes minutes: make soak")


def state(api, sandbox):
    status, sb = api.request("GET", f"/sandbox/{sandbox}")
    return sb["state"] if status == 200 else "gone"


def test_ephemeral_sandbox_is_deleted_when_it_stops(api):
    sb = api.create(autoDeleteInterval=0)
    api.post(f"/sandbox/{sb['id']}/stop")
    wait_for(lambda: state(api, sb["id"]) == "gone", 30)


@soak
def test_e11_idle_stops_but_a_running_command_counts(api):
    idle, busy, left = (api.create(autoStopInterval=1)["id"] for _ in range(3))
    short = api.create(ttlMinutes=1)["id"]
    got = []
    patient = http.client.HTTPConnection("127.0.0.1", api.port, timeout=300)
    t = threading.Thread(target=lambda: got.append(api.post(
        f"/toolbox/{busy}/process/execute", {"command": "sleep 100; echo done"}, conn=patient)))
    t.start()
    # What only runs inside, with nobody attached, doesn't count (contract 5.2).
    api.exec(left, "sleep 1000 > /dev/null 2>&1 &")
    began = time.monotonic()
    wait_for(lambda: state(api, idle) == "stopped", 100)
    wait_for(lambda: state(api, left) == "stopped", 30)
    wait_for(lambda: state(api, short) == "gone", 30)
    assert time.monotonic() - began > 55
    t.join(60)
    assert got and got[0]["result"] == "done\n" and state(api, busy) == "started"
    wait_for(lambda: state(api, busy) == "stopped", 100)
