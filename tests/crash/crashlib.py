"""What the crash tests share: work that remembers what was acknowledged, and the verdict."""
import http.client
import random
import threading
import time
import uuid

import leftovers

NETWORK = (OSError, http.client.HTTPException)


class Book:
    """What the daemon acknowledged. An answer that never came proves nothing either way."""

    def __init__(self):
        self.lock = threading.Lock()
        self.alive, self.dead, self.unsure = {}, set(), set()

    def created(self, sandbox):
        with self.lock:
            self.alive[sandbox["id"]] = sandbox["name"]

    def deleting(self, sandbox):
        with self.lock:
            self.unsure.add(sandbox)

    def deleted(self, sandbox):
        with self.lock:
            self.unsure.discard(sandbox)
            self.alive.pop(sandbox, None)
            self.dead.add(sandbox)


def wait_up(d, seconds=60):
    """Until the API answers again after its process died."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if d.request("GET", "/health")[0] == 200:
                return
        except NETWORK:
            pass
        assert time.monotonic() < deadline, f"not back after {seconds} s:\n{d.tail()}"
        time.sleep(0.02)


def restart(d):
    """A new daemon on the same data, after the runner is gone."""
    d.start(env={"CAISSON_CRASH_AT": ""})


def one_cycle(d, book, rng, keep=0.2):
    """create, exec, session, keyed exec, maybe stop and start, mostly delete; gives up at the first
    lost connection."""
    status, sb = d.request("POST", "/sandbox", {"autoStopInterval": 0})
    if status != 200:
        return status < 500 or status == 503
    book.created(sb)
    d.request("POST", f"/toolbox/{sb['id']}/process/execute", {"command": "echo kept > /tmp/mark"})
    d.request("POST", f"/toolbox/{sb['id']}/process/session", {"sessionId": "s"})
    d.request("POST", f"/caisson/sandboxes/{sb['id']}/exec", {"command": "echo once"},
              headers={"Idempotency-Key": str(uuid.uuid4())})
    if rng.random() < 0.3:
        d.request("POST", f"/sandbox/{sb['id']}/stop")
        d.request("POST", f"/sandbox/{sb['id']}/start")
    if rng.random() < keep:
        return True
    book.deleting(sb["id"])
    status, _ = d.request("DELETE", f"/sandbox/{sb['id']}")
    if status in (200, 204, 404):
        book.deleted(sb["id"])
    return True


class Worker(threading.Thread):
    """Cycles until told to stop; lost connections are part of the day."""

    def __init__(self, d, book, seed):
        super().__init__(daemon=True)
        self.d, self.book, self.rng = d, book, random.Random(seed)
        self.stop, self.cycles, self.faults = threading.Event(), 0, []

    def run(self):
        while not self.stop.is_set():
            try:
                if not one_cycle(self.d, self.book, self.rng):
                    self.faults.append("a cycle was refused")
                self.cycles += 1
            except NETWORK:
                time.sleep(0.02)

    def end(self):
        self.stop.set()
        self.join(120)
        assert not self.is_alive(), "a call never returned"
        assert not self.faults, self.faults[:3]


def get_settled(d, sandbox, seconds=60):
    """Status and record once the sandbox is in no transitional state."""
    deadline = time.monotonic() + seconds
    while True:
        status, sb = d.request("GET", f"/sandbox/{sandbox}")
        if status != 200 or sb["state"] in ("started", "stopped", "error", "destroyed"):
            return status, sb
        assert time.monotonic() < deadline, f"{sandbox} hangs in {sb['state']}"
        time.sleep(0.05)


def check_book(d, book):
    """Nothing acknowledged is lost, nothing deleted is back, what runs answers."""
    for sandbox in list(book.dead):
        status, sb = get_settled(d, sandbox)
        assert status == 404 or sb["state"] == "destroyed", f"{sandbox} is back: {sb}"
    for sandbox in list(book.alive):
        if sandbox in book.unsure:
            continue
        status, sb = get_settled(d, sandbox)
        assert status == 200, f"{sandbox} was acknowledged and is lost: {status} {sb}"
        assert sb["state"] in ("started", "stopped"), f"{sandbox}: {sb['state']}: {sb.get('errorReason')}"
        if sb["state"] == "started":
            reply = d.exec(sandbox, "echo here")
            assert reply["exitCode"] == 0 and "here" in reply["result"]


def everything(d):
    items, cursor = [], None
    while True:
        page = d.get("/sandbox?limit=200&includeErroredDeleted=true"
                     + (f"&cursor={cursor}" if cursor else ""))
        items += page["items"]
        cursor = page.get("nextCursor")
        if not cursor:
            return items


def delete_all(d):
    for sb in everything(d):
        d.request("DELETE", f"/sandbox/{sb['id']}")


def verdict(d, book, before, spare=()):
    check_book(d, book)
    for sb in everything(d):
        if sb["id"] not in spare:
            d.request("DELETE", f"/sandbox/{sb['id']}")
    leftovers.settle(d, before, 60)
