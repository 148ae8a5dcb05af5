"""What happened to a sandbox: its states with reasons and its memory deaths, by REST and CLI."""
import json
import os
import signal

import pytest

import cli_daemon
from resthelp import ISO, refused, wait_for


def history(api, sandbox, **query):
    text = "&".join(f"{k}={v}" for k, v in query.items())
    return api.get(f"/caisson/sandboxes/{sandbox}/events{'?' + text if text else ''}")


def states(items):
    return [x["state"] for x in items if x["kind"] == "state"]


@pytest.fixture()
def sb(api):
    made = api.create(autoStopInterval=0)
    yield made["id"]
    api.delete(f"/sandbox/{made['id']}")


def test_states_are_told_in_order(api, sb):
    api.post(f"/sandbox/{sb}/stop")
    api.post(f"/sandbox/{sb}/start")
    items = history(api, sb)["items"]
    assert states(items) == ["creating", "started", "stopping", "stopped", "starting", "started"]
    assert all(ISO.match(x["at"]) for x in items)
    assert [x["id"] for x in items] == sorted({x["id"] for x in items})


def test_a53_memory_death_is_told_with_limit_peak_and_victim(api, sb):
    api.exec(sb, "tail /dev/zero", timeout=60)
    oom = wait_for(lambda: [x for x in history(api, sb)["items"] if x["kind"] == "oom"])[0]
    assert oom["memoryLimitBytes"] == 1 << 30
    assert 900 << 20 < oom["memoryPeakBytes"] <= (1 << 30) + (1 << 20)
    assert oom["victim"] == "tail" and "victim tail" in oom["reason"]
    assert "state" not in oom


def test_pages_cover_all(api, sb):
    api.post(f"/sandbox/{sb}/stop")
    got, cursor = [], 0
    while cursor is not None:
        page = history(api, sb, cursor=cursor, limit=1)
        assert len(page["items"]) == 1
        got += page["items"]
        cursor = page.get("nextCursor")
    assert got == history(api, sb)["items"]
    assert history(api, sb, cursor=got[-1]["id"]) == {"items": []}


@pytest.mark.parametrize("query,says", [
    ("cursor=-1", "cursor:"), ("cursor=x", "cursor:"), ("limit=0", "limit:"),
    ("limit=501", "limit:"), ("cursor=99999999999999999999", "cursor:")])
def test_bad_queries_are_refused(api, sb, query, says):
    status, body = api.request("GET", f"/caisson/sandboxes/{sb}/events?{query}")
    assert status == 400 and says in body["message"], body


def test_unknown_sandbox_has_no_history(api):
    assert api.request("GET", "/caisson/sandboxes/nobody/events")[0] == 404
    assert api.request("GET", "/caisson/sandboxes/nobody/events",
                       headers={"Authorization": "Bearer x"})[0] == 401


def test_cli_shows_it_for_people_and_scripts(api, sb):
    api.post(f"/sandbox/{sb}/stop")
    lines = api.cli("logs", sb).stdout.decode().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["creating", "started", "stopping", "stopped"]
    assert json.loads(api.cli("logs", "--json", sb).stdout) == history(api, sb)["items"]
    out = api.cli("logs", "nobody", check=False)
    assert out.returncode == 1 and b"not found" in out.stderr


def first_process(d, sandbox):
    """Pid, on the machine, of the process 1 of a sandbox."""
    with open(f"{d.run_dir}/boxes/{sandbox}/state", encoding="ascii") as f:
        return int(f.read().split()[2])


def test_end_without_being_asked_is_told_with_the_reason():
    with cli_daemon.Daemon(on_exit="keep") as d:
        sb, other = d.create(autoStopInterval=0)["id"], d.create(autoStopInterval=0)["id"]
        os.kill(first_process(d, other), signal.SIGKILL)
        wait_for(lambda: d.get(f"/sandbox/{other}")["state"] == "stopped")
        assert history(d, other)["items"][-1]["reason"]
        pid = first_process(d, sb)
        d.stop()
        os.kill(pid, signal.SIGKILL)
        d.start()
        wait_for(lambda: d.get(f"/sandbox/{sb}")["state"] == "stopped")
        last = history(d, sb)["items"][-1]
        assert last["state"] == "stopped" and "not running any more" in last["reason"]
