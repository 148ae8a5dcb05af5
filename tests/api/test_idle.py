"""Idle time by a clock that the test moves: what keeps a sandbox, and what lives in it, alive."""
import os
import shutil
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402
import fakeclock  # noqa: E402
from resthelp import WebSocket, wait_for  # noqa: E402

MINUTE = 60


@pytest.fixture
def moved():
    base = tempfile.mkdtemp(prefix="caisson-clock-")
    os.chmod(base, 0o755)
    try:
        clock = fakeclock.Clock(base)
        with cli_daemon.Daemon(env=clock.env) as d:
            yield d, clock
    finally:
        shutil.rmtree(base, ignore_errors=True)


def terminal(d, box, name, path="create-connect?id={}&cols=80&rows=24"):
    ws = WebSocket(d, f"/toolbox/{box}/process/pty/{path.format(name)}")
    assert ws.status == 101
    assert b"connected" in ws.recv()[1]
    return ws


def says(ws, what):
    seen = b""
    while what not in seen:
        op, data = ws.recv()
        assert op != 8, seen
        seen += data
    return seen


def state(d, box):
    return d.get(f"/sandbox/{box}")["state"]


def ticked(d, box):
    """The timers have seen the new time: a sandbox that is due stops."""
    wait_for(lambda: state(d, box) == "stopped", 30)


def left_alone(d, clock, box, minutes):
    """It stops. A hang-up counts from when it is noticed, which may be after the clock has moved."""
    clock.forward(minutes * MINUTE)
    time.sleep(3)
    if state(d, box) == "started":
        clock.forward(minutes * MINUTE)
    ticked(d, box)


def test_terminals_outlive_thirty_idle_minutes_and_a_restart(moved):
    d, clock = moved
    box = d.create(autoStopInterval=45)["id"]
    due = d.create(autoStopInterval=20)["id"]
    ws = terminal(d, box, "long")
    ws.send(b"X=kept; echo o''n\n")
    says(ws, b"on\r\n")
    ws.sock.close()
    clock.forward(30 * MINUTE)
    ticked(d, due)
    d.kill("api")
    d.wait_ready()
    assert state(d, box) == "started"
    ws = terminal(d, box, "long", "{}/connect")
    ws.send(b'echo "<$X>"\n')
    says(ws, b"<kept>")
    ws.sock.close()


def test_a_terminal_nobody_looks_at_does_not_keep_its_sandbox(moved):
    d, clock = moved
    box = d.create(autoStopInterval=45)["id"]
    terminal(d, box, "alone").sock.close()
    left_alone(d, clock, box, 46)
    status, reply = d.request("GET", f"/toolbox/{box}/process/pty/alone")
    assert status in (404, 409, 410), reply


def test_a_terminal_with_a_client_keeps_its_sandbox(moved):
    d, clock = moved
    box = d.create(autoStopInterval=45)["id"]
    due = d.create(autoStopInterval=45)["id"]
    ws = terminal(d, box, "looked-at")
    clock.forward(50 * MINUTE)
    ticked(d, due)
    assert state(d, box) == "started"
    ws.send(b"echo st''ill\n")
    says(ws, b"still")
    ws.sock.close()
    left_alone(d, clock, box, 46)
