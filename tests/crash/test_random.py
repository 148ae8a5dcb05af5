"""kill -9 of the api process, the runner or both, at random, while sandboxes come and go."""
import json
import random
import time

from crashlib import NETWORK, Book, Worker, restart, verdict, wait_up
from leftovers import steady

ROLES = (("api",), ("runner",), ("api", "runner"))


def strike(d, roles):
    """One kill and the way back."""
    try:
        d.kill(*roles)
    except (KeyError, ProcessLookupError):
        return
    if "runner" in roles:
        restart(d)
    wait_up(d)


def test_e16_random_kills_lose_nothing_and_leave_nothing(daemon, soak):
    strikes, seed = (200, time.time_ns()) if soak else (15, 20260131)
    rng = random.Random(seed)
    print(f"seed {seed}")
    daemon.start()
    before = steady(daemon)
    book = Book()
    witness = daemon.create(autoStopInterval=0)
    book.created(witness)
    life = daemon.exec(witness["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    workers = [Worker(daemon, book, seed + i) for i in range(3)]
    for w in workers:
        w.start()
    for _ in range(strikes):
        time.sleep(rng.uniform(0.02, 0.6))
        strike(daemon, rng.choice(ROLES))
    for w in workers:
        w.end()
    cycles = sum(w.cycles for w in workers)
    print(f"{cycles} cycles, {len(book.alive)} kept, {len(book.dead)} deleted")
    assert cycles > strikes // 3, "hardly any work was done"
    again = daemon.exec(witness["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    assert again == life, "the sandbox that ran was started anew"
    verdict(daemon, book, before)


def test_idempotency_key_gives_one_sandbox_over_a_crash(daemon, soak):
    rounds = 50 if soak else 8
    rng = random.Random(7)
    daemon.start()
    before = steady(daemon)
    for i in range(rounds):
        body = {"name": f"once-{i}", "autoStopInterval": 0}
        head = {"Idempotency-Key": f"key-{i}"}
        conn = daemon.connect()
        conn.request("POST", "/api/sandbox", json.dumps(body),
                     {"Authorization": f"Bearer {daemon.key}",
                      "Content-Type": "application/json", **head})
        time.sleep(rng.uniform(0, 0.008))
        strike(daemon, rng.choice(ROLES))
        conn.close()
        first = create_until(daemon, body, head)
        second = create_until(daemon, body, head)
        assert first["id"] == second["id"]
        same = [s for s in daemon.get("/sandbox?limit=200")["items"] if s["name"] == body["name"]]
        assert len(same) == 1, same
        status, _ = daemon.request("POST", "/sandbox", {**body, "labels": {"a": "b"}}, head)
        assert status == 409
    verdict(daemon, Book(), before)


def create_until(d, body, head):
    for _ in range(200):
        try:
            status, sb = d.request("POST", "/sandbox", body, head)
            if status == 200:
                return sb
            assert status in (409, 429, 503), sb
        except NETWORK:
            pass
        time.sleep(0.05)
    raise AssertionError("the create with a key never came through")


def test_e5_hundred_creates_at_once_leave_no_orphan(daemon, soak):
    """Half of the clients hang up before the answer; each sandbox is whole or gone."""
    n = 200 if soak else 60
    daemon.start()
    before = steady(daemon)
    conns = []
    for i in range(n):
        c = daemon.connect()
        c.request("POST", "/api/sandbox", json.dumps({"name": f"burst-{i}"}),
                  {"Authorization": f"Bearer {daemon.key}", "Content-Type": "application/json"})
        conns.append(c)
    for c in conns[::2]:
        c.close()
    book = Book()
    for c in conns[1::2]:
        reply = c.getresponse()
        body = json.loads(reply.read())
        assert reply.status == 200, body
        book.created(body)
        c.close()
    verdict(daemon, book, before)


def test_restart_adopts_what_lives(daemon):
    daemon.start()
    before = steady(daemon)
    book = Book()
    boxes = [daemon.create(autoStopInterval=0) for _ in range(5)]
    lives = {}
    for sb in boxes:
        book.created(sb)
        lives[sb["id"]] = daemon.exec(sb["id"], "cut -d' ' -f22 /proc/1/stat")["result"]
    for _ in range(3):
        daemon.stop()
        daemon.start()
    for sandbox, life in lives.items():
        assert daemon.exec(sandbox, "cut -d' ' -f22 /proc/1/stat")["result"] == life
    verdict(daemon, book, before)
