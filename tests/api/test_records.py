"""Records that can't be opened: the daemon says why once and ends; what runs lives on."""
import os
import shutil
import subprocess

import pytest

import cli_daemon

CAISSOND = f"{cli_daemon.BUILD}/caissond"

@pytest.fixture()
def kept():
    with cli_daemon.Daemon(on_exit="keep") as daemon:
        yield daemon

def database(d):
    return f"{d.data_dir}/api/caisson.db"

def save(d):
    """A sound copy of what is there; the daemon must be down."""
    shutil.copytree(f"{d.data_dir}/api", f"{d.base}/sound")

def restore(d):
    owner = os.stat(f"{d.data_dir}/api")
    shutil.rmtree(f"{d.data_dir}/api")
    shutil.copytree(f"{d.base}/sound", f"{d.data_dir}/api")
    os.chmod(f"{d.data_dir}/api", 0o700)
    for place in (f"{d.data_dir}/api", *(f"{d.data_dir}/api/{n}" for n in os.listdir(
            f"{d.data_dir}/api"))):
        os.chown(place, owner.st_uid, owner.st_gid)

def damage(d):
    for suffix in ("-wal", "-shm"):
        if os.path.exists(database(d) + suffix):
            os.unlink(database(d) + suffix)
    with open(database(d), "r+b") as f:
        f.write(b"Z" * 8192)

def check(d):
    return subprocess.run([CAISSOND, "check", "--data-dir", d.data_dir, "--config", "/dev/null",
                           "--uplink-netns", d.uplink], capture_output=True, text=True,
                          check=False, timeout=60)

def test_api_that_fails_at_each_start_ends_the_daemon_and_sandboxes_live_on(kept):
    sb = kept.create(autoStopInterval=0)
    kept.exec(sb["id"], "echo kept > /tmp/f; sleep 1000 > /dev/null 2>&1 &")
    kept.stop()
    save(kept)
    kept.start()
    damage(kept)
    kept.kill("api")
    assert kept.proc.wait(60) == 1
    last = [line for line in kept.tail(400).splitlines() if "could not start" in line]
    assert len(last) == 1 and "not a database" in last[0] and "live on" in last[0], kept.tail()
    restore(kept)
    kept.start()
    assert kept.exec(sb["id"], "cat /tmp/f; ps -o args | grep -c '[s]leep 1000'")[
        "result"] == "kept\n1\n"
    kept.delete(f"/sandbox/{sb['id']}")

def test_doctor_tells_of_damaged_records_and_the_daemon_refuses_by_it(kept):
    kept.stop()
    assert "ok    records" in check(kept).stdout
    save(kept)
    damage(kept)
    told = check(kept)
    assert told.returncode == 1
    line = [x for x in told.stdout.splitlines() if "records" in x]
    assert line and line[0].startswith("FAIL") and "not a database" in line[0], told.stdout
    kept.start(wait=False)
    assert kept.proc.wait(60) != 0
    assert "not a database" in kept.tail()
    restore(kept)
    kept.start()

def test_doctor_tells_of_records_of_another_user(kept):
    kept.stop()
    owner = os.stat(database(kept))
    os.chown(database(kept), 12345, 12345)
    told = check(kept)
    assert told.returncode == 1 and "unable to open" in told.stdout, told.stdout
    os.chown(database(kept), owner.st_uid, owner.st_gid)
    assert check(kept).returncode == 0
    kept.start()
