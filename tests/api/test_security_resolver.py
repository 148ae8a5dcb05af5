"""Greedy sandboxes leave the resolver to the others."""
import os
import subprocess
import sys
import time

import pytest

import cli_daemon
from test_security_share import program

FAKENET = f"{cli_daemon.TOP}/tests/lib/fakenet.py"
FLOOD = f"{cli_daemon.TOP}/tests/lib/dnsflood.c"
GREEDY = 9  # eight could take all there is by their own ceilings


@pytest.fixture(scope="module")
def internet():
    """The settings of a fake internet that lasts as long as its standard input."""
    with subprocess.Popen([sys.executable, FAKENET, "--", "sh", "-c", "env -0; echo; cat"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        text = p.stdout.readline().decode()
        yield dict(line.split("=", 1) for line in text.split("\0") if "=" in line)
        p.stdin.close()


@pytest.fixture(scope="module")
def api(internet):
    daemon = cli_daemon.Daemon(args=["--resolvers", internet["CAISSON_TEST_RESOLVERS"]], start=False)
    try:
        daemon.uplink = internet["CAISSON_TEST_UPLINK"]
        daemon.start()
        yield daemon
    finally:
        daemon.close()


def found(api, box, server):
    out = api.exec(box, f"nslookup -type=a good.test {server}", timeout=10)
    return "93.184.216.34" in out["result"]


def test_greedy_sandboxes_leave_the_resolver_to_others(api, make):
    calm = make()["id"]
    server = api.exec(calm, "sed -n 's/^nameserver //p' /etc/resolv.conf | head -n 1")["result"].strip()
    assert found(api, calm, server)
    for _ in range(GREEDY):
        box = make()["id"]
        program(api, box, FLOOD, "/tmp/flood")
        api.exec(box, f"(/tmp/flood {server} 6 >/dev/null 2>&1 &)")
    time.sleep(1)
    assert sum(found(api, calm, server) for _ in range(10)) >= 9
    assert os.path.exists(f"/proc/{api.pids()['net']}")
