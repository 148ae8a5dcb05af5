"""The daemon dies at each named point of its source; the next one makes it good."""
import glob
import os
import re
import signal
import time

import pytest
from crashlib import NETWORK, Book, one_cycle, restart, verdict
from leftovers import steady

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
CALL = re.compile(r'\b(?:box_crash_point|crash_at)\("([^"]+)"\)')


def points():
    found = set()
    for path in glob.glob(f"{TOP}/src/**/*.c", recursive=True):
        with open(path, encoding="utf-8") as f:
            found |= set(CALL.findall(f.read()))
    return sorted(found)


class Always:
    """Chance, when every branch shall be taken."""

    @staticmethod
    def random():
        return 0.1


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


def work_until_it_dies(d, book):
    """Whether a process of the daemon ended: at its start, or under the work."""
    try:
        d.wait_ready(10)
        before = role_pids(d)
        for _ in range(3):
            one_cycle(d, book, Always(), keep=0)
        time.sleep(0.3)
        return role_pids(d) != before or d.proc.poll() is not None
    except (*NETWORK, RuntimeError):
        return True


@pytest.mark.parametrize("point", points())
def test_point_loses_nothing_and_leaves_nothing(daemon, point):
    daemon.start()
    before = steady(daemon)
    book = Book()
    witness = daemon.create(autoStopInterval=0)
    book.created(witness)
    daemon.exec(witness["id"], "echo kept > /tmp/witness")
    life = daemon.exec(witness["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    daemon.stop()

    daemon.start(wait=False, env={"CAISSON_CRASH_AT": point})
    fired = work_until_it_dies(daemon, book)
    kill_rest(daemon)
    assert fired, f"nothing passes {point} while sandboxes come and go"

    restart(daemon)
    assert daemon.exec(witness["id"], "cat /tmp/witness")["result"].strip() == "kept"
    again = daemon.exec(witness["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    assert again == life, "the sandbox that ran was started anew"
    verdict(daemon, book, before)


def test_the_sources_name_points():
    assert points(), "no crash point is left in the sources"
