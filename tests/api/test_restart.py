"""What was promised holds when the api process or the whole daemon ends and comes again."""
import time
import uuid

import pytest

import cli_daemon
from resthelp import refused, wait_for


@pytest.fixture(scope="module")
def kept():
    with cli_daemon.Daemon(on_exit="keep") as daemon:
        yield daemon


def wait_up(d):
    def up():
        try:
            return d.request("GET", "/health")[0] == 200
        except OSError:
            return False
    wait_for(up, 60)


def crash_api(d):
    old = d.pids()["api"]
    d.kill("api")
    wait_for(lambda: d.pids().get("api") not in (None, old))
    wait_up(d)


def test_idempotency_key_holds_over_a_crash(kept):
    head = {"Idempotency-Key": str(uuid.uuid4())}
    first = kept.post("/sandbox", {"labels": {"a": "1"}, "autoStopInterval": 0}, headers=head)
    crash_api(kept)
    again = kept.post("/sandbox", {"labels": {"a": "1"}, "autoStopInterval": 0}, headers=head)
    assert again["id"] == first["id"]
    refused(kept, 409, "POST", "/sandbox", {"labels": {"a": "2"}}, headers=head)
    kept.delete(f"/sandbox/{first['id']}")


def test_running_sandbox_answers_after_a_crash_and_a_restart(kept):
    sb = kept.create(autoStopInterval=0, labels={"keep": "me"}, env={"A": "b"})
    kept.exec(sb["id"], "sleep 1000 > /dev/null 2>&1 & echo data > /tmp/f")
    made = kept.post("/api-keys", {"name": "kept", "permissions": []})
    crash_api(kept)
    assert kept.exec(sb["id"], "cat /tmp/f; ps -o args | grep -c '[s]leep 1000'; echo $A")[
        "result"] == "data\n1\nb\n"
    kept.stop()
    kept.start()
    got = kept.get(f"/sandbox/{sb['id']}")
    assert got["state"] == "started" and got["labels"] == {"keep": "me"}
    assert kept.exec(sb["id"], "cat /tmp/f; ps -o args | grep -c '[s]leep 1000'")[
        "result"] == "data\n1\n"
    status, _ = kept.request("GET", "/api-keys/current",
                             headers={"Authorization": f"Bearer {made['value']}"})
    assert status == 200
    kept.delete(f"/sandbox/{sb['id']}")


def test_streams_end_when_the_daemon_stops(kept):
    import resthelp
    ev = resthelp.Events(kept)
    began = time.monotonic()
    kept.stop()
    assert time.monotonic() - began < 15
    op = None
    try:
        while op != 8:
            op, _ = ev.ws.recv()
    except (EOFError, ConnectionError):
        pass
    kept.start()
