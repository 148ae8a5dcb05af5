"""Listening ports, version, directories, environment, metrics: what a sandbox tells of itself."""
import time

import pytest

from resthelp import refused, wait_for


def listen(api, box, where):
    """A listener that lives until the sandbox ends; busybox says [address:]port."""
    got = api.exec(box, f"httpd -p {where}")
    assert got["exitCode"] == 0, got


def ports(api, box):
    return api.get(f"/toolbox/{box}/port")["ports"]


def test_nobody_listens_in_a_fresh_sandbox(api, make):
    sb = make()["id"]
    assert api.get(f"/toolbox/{sb}/port") == {"ports": []}
    assert api.get(f"/toolbox/{sb}/port/3000/in-use") == {"isInUse": False}


def test_listeners_are_seen_at_once_in_order_and_on_any_address(api, make):
    sb = make()["id"]
    listen(api, sb, "127.0.0.1:8080")
    listen(api, sb, "0.0.0.0:3001")
    listen(api, sb, "[::1]:70")
    wait_for(lambda: ports(api, sb) == [70, 3001, 8080])
    assert api.get(f"/toolbox/{sb}/port/8080/in-use") == {"isInUse": True}
    assert api.get(f"/toolbox/{sb}/port/8081/in-use") == {"isInUse": False}


def test_a_closed_listener_is_gone_and_neighbours_are_not_seen(api, make):
    a, b = make()["id"], make()["id"]
    listen(api, a, "4000")
    wait_for(lambda: ports(api, a) == [4000])
    assert ports(api, b) == []
    api.exec(a, "killall httpd")
    wait_for(lambda: ports(api, a) == [])


@pytest.mark.parametrize("port", ["2999", "10000", "0", "-1", "70000", "x", "3000.5", "99999999999999999999"])
def test_in_use_outside_its_range_is_400(api, box, port):
    refused(api, 400, "GET", f"/toolbox/{box}/port/{port}/in-use", says="port: ")


def test_ports_of_a_stopped_sandbox_are_a_conflict(api, make):
    sb = make()["id"]
    api.post(f"/sandbox/{sb}/stop")
    refused(api, 409, "GET", f"/toolbox/{sb}/port", code="SANDBOX_NOT_STARTED")


def test_init_is_not_for_clients(api, box):
    refused(api, 403, "POST", f"/toolbox/{box}/init", {"token": "x"}, says="init: ")


def test_version_and_directories(api, box):
    assert api.get(f"/toolbox/{box}/version")["version"]
    home = api.get(f"/toolbox/{box}/user-home-dir")
    assert home["dir"].startswith("/")
    assert api.get(f"/toolbox/{box}/project-dir") == home
    assert api.get(f"/toolbox/{box}/work-dir")["dir"].startswith("/")


# ---- environment ----

def env(api, box):
    out = api.exec(box, "env")["result"]
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)


def test_environment_changes_reach_processes_started_later(api, make):
    sb = make(env={"A": "1", "B": "s3:x", "C": "s3:y"})["id"]
    api.post(f"/toolbox/{sb}/env", {"set": {"D": "4", "C": "plain"}, "unset": ["A", "NONE"],
                                    "unsetValuePrefix": "s3:"})
    now = env(api, sb)
    assert "A" not in now and "B" not in now
    assert (now["C"], now["D"]) == ("plain", "4")


def test_what_is_set_wins_over_its_own_prefix(api, make):
    sb = make(env={"A": "s3:old"})["id"]
    got = api.post(f"/toolbox/{sb}/env", {"set": {"A": "s3:new"}, "unsetValuePrefix": "s3:"})
    assert got == {"A": "s3:new"} and env(api, sb)["A"] == "s3:new"


# ---- metrics ----

def metrics(api, box):
    return api.get(f"/toolbox/{box}/system/metrics")


def test_metrics_name_processor_memory_disk_network_and_processes(api, make):
    sb = make()["id"]
    m = metrics(api, sb)
    assert m["memTotal"] == 1 << 30 and 0 < m["memUsed"] < 64 << 20, m
    assert m["diskTotal"] == 3 << 30 and m["pids"] >= 1, m
    assert abs(m["timestampUnix"] - time.time()) < 5
    assert {"networkRxBytes", "networkTxBytes", "networkRxPackets", "networkTxPackets"} <= set(m)


def test_load_shows_in_percent_of_the_limit(api, make):
    sb = make()["id"]
    metrics(api, sb)
    api.exec(sb, "timeout 1 sh -c 'while :; do :; done'")
    busy = metrics(api, sb)["cpuUsedPct"]
    assert 20 < busy < 130, busy
    assert metrics(api, sb)["cpuUsedPct"] == busy  # too early for another sample
    time.sleep(0.5)
    assert metrics(api, sb)["cpuUsedPct"] < 20


def test_processes_count(api, make):
    sb = make()["id"]
    before = metrics(api, sb)["pids"]
    api.exec(sb, "for i in 1 2 3 4 5; do sleep 60 >/dev/null 2>&1 & done")
    wait_for(lambda: metrics(api, sb)["pids"] >= before + 5)


def test_sent_packets_count(api, make):
    sb = make()["id"]
    before = metrics(api, sb)["networkTxPackets"]
    api.exec(sb, "for i in 1 2 3; do nc -w 1 192.0.2.1 9; done")
    wait_for(lambda: metrics(api, sb)["networkTxPackets"] >= before + 3)
