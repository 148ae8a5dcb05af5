"""`sudo make demo`: the first of the README's two commands, twice, and its end."""
import os
import re
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402
import leftovers  # noqa: E402


@pytest.fixture
def demo():
    uplink = cli_daemon.Uplink()
    folder = tempfile.mkdtemp(prefix="caisson-demo-")
    os.chmod(folder, 0o711)
    env = {**os.environ, "CAISSON_DEMO_DIR": folder, "CAISSON_UPLINK_NETNS": uplink.path,
           "CAISSON_DEMO_LISTEN": f"127.0.0.1:{cli_daemon.free_port()}"}

    def run(what):
        return subprocess.run([f"{cli_daemon.TOP}/tools/demo", what], env=env, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=600,
                              check=False)
    yield run, folder, uplink.path
    run("stop")
    uplink.close()
    subprocess.run(["rm", "-rf", folder], check=False)


def test_demo_twice_and_its_end(demo):
    run, folder, uplink = demo
    first = run("start")
    assert first.returncode == 0, first.stdout + first.stderr
    assert re.search(r"^create a sandbox +\d+ ms$", first.stdout, re.M)
    assert re.search(r"export DAYTONA_API_URL=http://\S+/api DAYTONA_API_KEY=dtn_[0-9a-f]{64} ",
                     first.stdout)
    assert "sudo make demo-stop" in first.stdout and not first.stderr
    with open(f"{folder}/demo.pid", encoding="ascii") as f:
        pid = f.read()
    assert run("start").returncode == 0
    with open(f"{folder}/demo.pid", encoding="ascii") as f:
        assert f.read() == pid, "a second demo did not reuse the daemon"
    with open(f"{folder}/instance", encoding="ascii") as f:
        instance = f.read().strip()
    assert run("stop").returncode == 0
    leftovers.assert_gone(folder, f"/run/caisson/{instance}", instance, uplink)


def test_demo_says_in_one_line_why_not():
    with cli_daemon.Daemon() as other:
        out = subprocess.run([f"{cli_daemon.TOP}/tools/demo", "start"], text=True,
                             env={**os.environ, "CAISSON_DEMO_DIR": "/tmp/caisson-demo-none",
                                  "CAISSON_DEMO_LISTEN": f"127.0.0.1:{other.port}"},
                             stdin=subprocess.DEVNULL, capture_output=True, timeout=600,
                             check=False)
    assert out.returncode == 1
    assert len(out.stderr.splitlines()) == 1 and "already answers" in out.stderr
