"""What the program itself promises: TLS, its key, its address, its settings."""
import http.client
import json
import os
import socket
import ssl
import stat
import subprocess
import threading
import time

import pytest

import cli_daemon

CAISSOND = f"{cli_daemon.BUILD}/caissond"


@pytest.fixture(scope="module")
def pem(tmp_path_factory):
    d = tmp_path_factory.mktemp("pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", f"{d}/key", "-out", f"{d}/cert"], check=True, capture_output=True)
    return d


def tls_request(d, pem, method, path, body=None):
    ctx = ssl.create_default_context(cafile=f"{pem}/cert")
    c = http.client.HTTPSConnection("127.0.0.1", d.port, context=ctx, timeout=30)
    head = {"Authorization": f"Bearer {d.key}", "Content-Type": "application/json"}
    c.request(method, path, json.dumps(body) if body is not None else None, head)
    r = c.getresponse()
    return r.status, json.loads(r.read() or b"null")


def test_tls_serves_create_and_exec_and_refuses_plain_text(pem):
    d = cli_daemon.Daemon(args=["--tls-cert", f"{pem}/cert", "--tls-key", f"{pem}/key"],
                          start=False)
    try:
        d.start(wait=False)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if tls_request(d, pem, "GET", "/api/health")[0] == 200:
                    break
            except OSError:
                time.sleep(0.02)
        with open(f"{d.data_dir}/admin.key", encoding="ascii") as f:
            d.key = f.read().strip()
        status, sb = tls_request(d, pem, "POST", "/api/sandbox", {})
        assert (status, sb["state"]) == (200, "started")
        assert sb["toolboxProxyUrl"].startswith("https://")
        status, out = tls_request(d, pem, "POST", f"/toolbox/{sb['id']}/process/execute",
                                  {"command": "echo over tls"})
        assert (status, out["result"]) == (200, "over tls\n")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain = http.client.HTTPConnection("127.0.0.1", d.port, timeout=5)
            plain.request("GET", "/api/health")
            plain.getresponse()
    finally:
        d.close()


def test_the_first_key_is_secret_on_disk_and_can_be_chosen():
    key = "dtn_" + "ab" * 32
    with cli_daemon.Daemon(env={"CAISSON_ADMIN_KEY": key}) as d:
        st = os.stat(f"{d.data_dir}/admin.key")
        assert (stat.S_IMODE(st.st_mode), st.st_uid) == (0o600, 0)
        assert d.key == key
        assert d.request("GET", "/api-keys/current")[0] == 200
        for pid in d.pids().values():
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                assert key.encode() not in f.read()


@pytest.mark.parametrize("args,says", [
    (["--admin-key", "short"], "admin-key: must be dtn_ and 64 lower-case hex digits"),
    (["--listen", "nonsense"], "is not HOST:PORT"),
    (["--on-exit", "maybe"], "on-exit: must be one of keep|destroy"),
    (["--tls-cert", "/nonexistent"], "tls-cert, tls-key: one needs the other"),
    (["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"], "tls-cert: read /nonexistent"),
    (["--default-image", "/nonexistent"], "/nonexistent"),
])
def test_a_setting_that_cannot_work_ends_the_start_in_one_line(args, says):
    d = cli_daemon.Daemon(start=False)
    try:
        argv = [CAISSOND, "--data-dir", d.data_dir, "--uplink-netns", d.uplink,
                *(args if "--listen" in args else ["--listen", "127.0.0.1:0", *args])]
        p = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert p.returncode not in (0, -6, -11)
        assert says in p.stderr
        assert "admin-key short" not in p.stderr
    finally:
        d.close()


def test_a_start_waits_for_a_predecessor_to_let_the_address_go():
    with cli_daemon.Daemon(start=False) as d:
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        held.listen()
        d.port = held.getsockname()[1]
        letting_go = threading.Timer(0.5, held.close)
        letting_go.start()
        d.start()
        letting_go.join()
        assert d.request("GET", "/health")[0] == 200


def test_a_second_daemon_on_one_data_directory_is_refused():
    with cli_daemon.Daemon() as d:
        p = subprocess.run([CAISSOND, "--data-dir", d.data_dir, "--listen", "127.0.0.1:0",
                            "--uplink-netns", d.uplink], capture_output=True, text=True,
                           timeout=60, check=False)
        assert p.returncode == 1
        assert f"another caissond uses {d.data_dir}" in p.stderr
        assert d.request("GET", "/health")[0] == 200


def failed_start(d, *args):
    p = subprocess.run([CAISSOND, "--data-dir", d.data_dir, "--listen", "127.0.0.1:0",
                        "--uplink-netns", d.uplink, *args], capture_output=True, text=True,
                       timeout=60, check=False)
    assert p.returncode == 1, p.stderr
    return p.stderr


def test_a_start_that_fails_leaves_nothing_in_the_run_directory():
    with cli_daemon.Daemon(start=False) as d:
        assert "/nope" in failed_start(d, "--init-path", "/nope")
        assert not os.path.exists(d.run_dir)
        tables = subprocess.run(["nsenter", f"--net={d.uplink}", "nft", "list", "tables"],
                                capture_output=True, text=True, check=True).stdout
        assert d.instance not in tables


def test_a_start_that_fails_leaves_living_sandboxes_and_their_network_alone():
    with cli_daemon.Daemon(on_exit="keep") as d:
        sb = d.create(autoStopInterval=0)
        routes = d.exec(sb["id"], "ip route")["result"]
        assert "default via" in routes
        d.stop()
        failed_start(d, "--init-path", "/nope")
        # The sandbox's only link ends in the router's namespace and goes with it.
        assert os.path.exists(f"{d.run_dir}/router.ns")
        d.start()
        assert d.get(f"/sandbox/{sb['id']}")["state"] == "started"
        assert d.exec(sb["id"], "ip route")["result"] == routes
