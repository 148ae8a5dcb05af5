"""Many sandboxes, mixed work, clients that vanish, a daemon that is killed twice in the middle, and
half an hour of idle time by a clock that is moved.

`make check`: 20 sandboxes × 50 operations; with --soak 200 × 50.
"""
import os
import re
import shutil
import tempfile
import time

import pytest

import cli_daemon
import fakeclock
from crashlib import restart, wait_up
from leftovers import settle, steady
from soaklib import Detached, Worker

WORKERS = 4


@pytest.fixture
def full():
    """A daemon on the default image, with interpreter, git and language servers, and its clock."""
    base = tempfile.mkdtemp(prefix="caisson-clock-")
    os.chmod(base, 0o755)
    try:
        clock = fakeclock.Clock(base)
        with cli_daemon.Daemon(image=cli_daemon.DEFAULT, on_exit="keep", start=False,
                               env=clock.env) as d:
            yield d, clock
    finally:
        shutil.rmtree(base, ignore_errors=True)


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        text = f.read()
    return {k: int(re.search(rf"^{k}:\s+(\d+)", text, re.M).group(1)) for k in ("VmRSS", "Threads")}


def resources(d):
    """Memory, threads and descriptors of the daemon, once its idle threads are gone."""
    got = {}
    for role, pid in d.pids().items():
        got[role] = {**status(pid), "fds": len(os.listdir(f"/proc/{pid}/fd"))}
    return got


def zombies(d):
    """Of the daemon's own processes and of those in its sandboxes."""
    roles, found = set(map(str, d.pids().values())), []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                text = f.read()
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                ours = f"caisson-{d.instance}/" in f.read()
        except OSError:
            continue
        state, parent = text.rsplit(")", 1)[1].split()[:2]
        if state == "Z" and (ours or parent in roles):
            found.append(text[:60])
    return found


def quiet(d, seconds=40):
    """Resources that do not change any more."""
    deadline = time.monotonic() + seconds
    last = resources(d)
    while time.monotonic() < deadline:
        time.sleep(1)
        now = resources(d)
        if all(now[r]["Threads"] <= last[r]["Threads"] and now[r]["fds"] == last[r]["fds"]
               for r in now):
            return now
        last = now
    return last


def phase(d, boxes, each, seed, strike=None):
    workers = [Worker(d, boxes[i::WORKERS], each, seed + i) for i in range(WORKERS)]
    for w in workers:
        w.start()
    if strike:
        time.sleep(2)
        strike()
    for w in workers:
        w.join(900 + each * len(boxes))
        assert not w.is_alive(), "an operation never returned"
    faults = [f for w in workers for f in w.faults]
    done, passing, lost = (sum(getattr(w, k) for w in workers) for k in ("done", "passing", "lost"))
    print(f"{done} done, {passing} could not then, {lost} lost their connection")
    assert not faults, (len(faults), faults[:5])
    return done


def test_soak_of_mixed_work_with_two_kills(full, soak):
    (d, clock), n, seed = full, 200 if soak else 20, time.time_ns() if soak else 20261201
    print(f"seed {seed}")
    d.start()
    before = steady(d)
    boxes = [d.create(autoStopInterval=120)["id"] for _ in range(n)]
    lives = {b: d.exec(b, "cut -d' ' -f22 /proc/1/stat")["result"] for b in boxes}
    detached = [Detached(d, b, i, 20) for i, b in enumerate(boxes[:n // 2])]

    def kill_api():
        d.kill("api")
        wait_up(d)

    def kill_all():
        d.kill("api", "runner")
        restart(d)
    done = phase(d, boxes, 12, seed, kill_api)
    done += phase(d, boxes, 12, seed + 100, kill_all)
    done += phase(d, boxes, 6, seed + 200)
    clock.forward(30 * 60)
    early = quiet(d)
    done += phase(d, boxes, 20, seed + 300)
    late = quiet(d)
    print(f"{done} operations; {early} -> {late}")
    assert done > n * 50 * 0.6, "hardly any work was done"
    dropped = [x.check() for x in detached]
    assert any(dropped) and not all(dropped), dropped
    assert lives == {b: d.exec(b, "cut -d' ' -f22 /proc/1/stat")["result"] for b in boxes}
    for role, now in late.items():
        was = early[role]
        assert now["fds"] <= was["fds"] + 6, (role, was, now)
        assert now["Threads"] <= was["Threads"] + 2, (role, was, now)
        assert now["VmRSS"] <= was["VmRSS"] + 8192, (role, was, now)
    assert zombies(d) == []
    halves = sum(int(d.exec(b, "ls -a /tmp /home/daytona | grep -c '^.caisson\\|half'")["result"])
                 for b in boxes[:20])
    assert halves == 0, "cut uploads left files"
    for b in boxes:
        d.delete(f"/sandbox/{b}")
    settle(d, before, 120)
