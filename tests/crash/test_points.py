"""The daemon dies at each named point of its source; the next one makes it good."""
import glob
import os
import random
import re
import signal
import time

import pytest
from crashlib import NETWORK, Book, one_cycle, restart, verdict
from leftovers import census

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
CALL = re.compile(r'\b(?:box_crash_point|crash_at)\("([^"]+)"\)')


def points():
    found = set()
    for path in glob.glob(f"{TOP}/src/**/*.c", recursive=True):
        with open(path, encoding="utf-8") as f:
            found |= set(CALL.findall(f.read()))
    return sorted(found)


def role_pids(d):
    try:
        return d.pids()
    except OSError:
        return {}


def kill_rest(d):
    """Whoever survived the point goes the same way, so that the next daemon starts alone."""
    for pid in role_pids(d).values():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    d.proc.wait(30)
    time.sleep(0.05)


@pytest.mark.parametrize("point", points())
def test_point_loses_nothing_and_leaves_nothing(daemon, point):
    daemon.start()
    before = census(daemon)
    book = Book()
    witness = daemon.create(autoStopInterval=0)
    book.created(witness)
    daemon.exec(witness["id"], "echo kept > /tmp/witness")
    life = daemon.exec(witness["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    daemon.stop()

    daemon.start(wait=False, env={"CAISSON_CRASH_AT": point})
    try:
        daemon.wait_ready(30)
        rng = random.Random(point)
        for _ in range(6):
            one_cycle(daemon, book, rng)
    except (*NETWORK, RuntimeError):
        pass
    kill_rest(daemon)

    restart(daemon)
    assert daemon.exec(witness["id"], "cat /tmp/witness")["result"].strip() == "kept"
    again = daemon.exec(witness["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    assert again == life, "the sandbox that ran was started anew"
    verdict(daemon, book, before)


def test_the_sources_name_points():
    assert points(), "no crash point is left in the sources"
