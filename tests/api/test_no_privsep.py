"""--no-privsep: both roles in one process, for a debugger; the records stay usable without it."""
import glob
import os
import shutil
import signal
import sqlite3

import pytest

import cli_daemon
from resthelp import wait_for


@pytest.fixture()
def one():
    with cli_daemon.Daemon(args=["--no-privsep"], on_exit="keep") as daemon:
        yield daemon


def without(d):
    """The next start has the roles apart again."""
    d.args.remove("--no-privsep")


def threads(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def main_job(d):
    sb = d.create(autoStopInterval=0)
    assert sb["state"] == "started"
    assert d.exec(sb["id"], "umask; stat -c %a /; echo hi > /tmp/f; cat /tmp/f")[
        "result"] == "0022\n755\nhi\n"
    return sb["id"]


def test_both_roles_are_one_process_that_does_the_main_job(one):
    assert set(one.pids()) == {"runner", "net"}
    assert threads(one.proc.pid) > 8
    sb = main_job(one)
    assert one.post(f"/sandbox/{sb}/stop")["state"] == "stopped"
    assert one.post(f"/sandbox/{sb}/start")["state"] == "started"
    assert one.exec(sb, "cat /tmp/f")["result"] == "hi\n"
    one.delete(f"/sandbox/{sb}")
    wait_for(lambda: not glob.glob(f"{one.data_dir}/boxes/*"))


def test_image_import_is_confined_there_as_well(one):
    one.cli("image", "import", "again", cli_daemon.BUSYBOX)
    assert "again" in one.cli("image", "list").stdout.decode()


def test_stop_is_orderly_and_sandboxes_go_on_under_separate_roles(one):
    sb = main_job(one)
    one.exec(sb, "sleep 1000 > /dev/null 2>&1 &")
    one.stop()
    assert one.proc.returncode == 0
    owners = {os.stat(p).st_uid for p in glob.glob(f"{one.data_dir}/api/*")}
    assert owners and 0 not in owners
    without(one)
    one.start()
    assert set(one.pids()) == {"runner", "net", "api"}
    assert one.exec(sb, "cat /tmp/f; ps -o args | grep -c '[s]leep 1000'")["result"] == "hi\n1\n"
    one.delete(f"/sandbox/{sb}")


def test_killed_process_leaves_sandboxes_to_the_next(one):
    sb = main_job(one)
    one.proc.send_signal(signal.SIGKILL)
    one.proc.wait(30)
    one.start()
    assert one.exec(sb, "cat /tmp/f")["result"] == "hi\n"
    one.delete(f"/sandbox/{sb}")


def test_api_that_cannot_start_ends_the_process_with_the_reason(one):
    one.stop()
    shutil.copytree(f"{one.data_dir}/api", f"{one.base}/sound")
    db = sqlite3.connect(f"{one.data_dir}/api/caisson.db")
    db.execute("DROP TABLE audit")
    db.close()
    one.start(wait=False)
    assert one.proc.wait(60) == 1, one.tail()
    assert "open the records" in one.tail() and "no such table" in one.tail(), one.tail()
    shutil.copy(f"{one.base}/sound/caisson.db", f"{one.data_dir}/api/caisson.db")
    one.start()
