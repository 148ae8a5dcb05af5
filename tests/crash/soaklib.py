"""What a soak does: clients that come, work in sandboxes, and vanish in the middle of it.

An operation is a function of (worker, sandbox); it raises Wrong when an answer is not the right
one. Lost connections and 409, 410, 429 and 503 are part of the day: a daemon is being killed.
"""
import hashlib
import http.client
import json
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "api"))
from resthelp import WebSocket  # noqa: E402

NETWORK = (OSError, EOFError, http.client.HTTPException)
PASSING = {409, 410, 429, 503}
LSP_AT_ONCE = threading.BoundedSemaphore(4)


class Wrong(Exception):
    pass


class Passing(Exception):
    """The daemon could not now; not a fault."""


def must(ok, *seen):
    if not ok:
        raise Wrong(" ".join(repr(s)[:300] for s in seen))


def call(d, method, path, body=None, want=(200, 201, 202, 204), **kw):
    status, reply = d.request(method, path, body, **kw)
    if status in PASSING:
        raise Passing(status)
    must(status in want, method, path, status, reply)
    return reply


def box_path(box, rest):
    return f"/toolbox/{box}/{rest}"


# ---- operations ----

def op_exec(w, box):
    n = w.rng.randrange(1000)
    got = call(w.d, "POST", box_path(box, "process/execute"), {"command": f"echo {n}; exit {n % 7}"})
    must((got["result"], got["exitCode"]) == (f"{n}\n", n % 7), got)


def op_exec_and_vanish(w, box):
    """The request is sent, and nobody waits for the answer."""
    body = json.dumps({"command": w.rng.choice(["sleep 0.2", "yes", "cat /dev/zero", "true"]),
                       "timeout": 5}).encode()
    s = socket.create_connection(("127.0.0.1", w.d.port), 20)
    s.sendall((f"POST {box_path(box, 'process/execute')} HTTP/1.1\r\nHost: x\r\n"
               f"Authorization: Bearer {w.d.key}\r\nContent-Type: application/json\r\n"
               f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
    time.sleep(w.rng.random() * 0.05)
    s.close()


def op_session(w, box):
    name = f"s{w.rng.getrandbits(40)}"
    base = box_path(box, "process/session")
    call(w.d, "POST", base, {"sessionId": name})
    call(w.d, "POST", f"{base}/{name}/exec", {"command": "cd /tmp; A=1"})
    got = call(w.d, "POST", f"{base}/{name}/exec", {"command": "echo $A $PWD; echo e >&2"})
    must((got["stdout"], got["stderr"]) == ("1 /tmp\n", "e\n"), got)
    if w.rng.random() < 0.3:
        # One that runs on: the sandbox's end, or the census, will tell.
        call(w.d, "POST", f"{base}/{name}/exec", {"command": "sleep 3", "runAsync": True})
    call(w.d, "DELETE", f"{base}/{name}")


def op_follow_and_vanish(w, box):
    name = f"f{w.rng.getrandbits(40)}"
    base = box_path(box, "process/session")
    call(w.d, "POST", base, {"sessionId": name})
    got = call(w.d, "POST", f"{base}/{name}/exec", {
        "command": "for i in $(seq 200); do echo $i; sleep 0.01; done", "runAsync": True})
    ws = WebSocket(w.d, f"{base}/{name}/command/{got['cmdId']}/logs?follow=true")
    if ws.status == 101:
        ws.recv()
    ws.sock.close()
    call(w.d, "DELETE", f"{base}/{name}")


def op_terminal(w, box):
    name = f"t{w.rng.getrandbits(40)}"
    ws = WebSocket(w.d, box_path(box, f"process/pty/create-connect?id={name}&cols=80&rows=24"))
    if ws.status != 101:
        must(ws.status in PASSING, "terminal", ws.status)
        raise Passing(ws.status)
    ws.send(b"echo o''k\n")
    seen, deadline = b"", time.monotonic() + 20
    while b"ok" not in seen:
        op, data = ws.recv()
        must(op != 8 and time.monotonic() < deadline, "terminal ended", op, data, seen)
        seen += data if op == 2 else b""
    if w.rng.random() < 0.5:
        ws.sock.close()
        call(w.d, "DELETE", box_path(box, f"process/pty/{name}"))
        return
    ws.send(b"exit 3\n")
    while op != 8:
        op, data = ws.recv()
        must(time.monotonic() < deadline, "terminal does not end")
    must(b'"exitCode":3' in data.replace(b" ", b""), data)
    ws.sock.close()


def op_files(w, box):
    data = os.urandom(w.rng.randrange(200000))
    path = f"/tmp/f{w.rng.getrandbits(40)}"
    call(w.d, "POST", box_path(box, f"files/upload-v2?path={path}"), data)
    got = call(w.d, "GET", box_path(box, f"files/download?path={path}"), raw=True)
    must(got == data, "other bytes", len(got), len(data))
    call(w.d, "DELETE", box_path(box, f"files?path={path}"))


def op_upload_and_vanish(w, box):
    """Half a body; no file may be left of it."""
    path = f"/tmp/half{w.rng.getrandbits(40)}"
    s = socket.create_connection(("127.0.0.1", w.d.port), 20)
    s.sendall((f"POST {box_path(box, 'files/upload-v2')}?path={path} HTTP/1.1\r\nHost: x\r\n"
               f"Authorization: Bearer {w.d.key}\r\nContent-Length: 1000000\r\n\r\n").encode()
              + os.urandom(w.rng.randrange(300000)))
    s.close()


def op_git(w, box):
    path = f"/tmp/g{w.rng.getrandbits(40)}"
    call(w.d, "POST", box_path(box, "git/init"), {"path": path})
    call(w.d, "POST", box_path(box, f"files/upload-v2?path={path}/x"), b"x")
    call(w.d, "POST", box_path(box, "git/add"), {"path": path, "files": ["."]})
    got = call(w.d, "POST", box_path(box, "git/commit"), {
        "path": path, "message": "m", "author": "a", "email": "a@example.com"})
    must(len(got["hash"]) == 40, got)
    call(w.d, "DELETE", box_path(box, f"files?path={path}&recursive=true"))


def op_interpreter(w, box):
    ws = WebSocket(w.d, box_path(box, "process/interpreter/execute"))
    if ws.status != 101:
        must(ws.status in PASSING, "interpreter", ws.status)
        raise Passing(ws.status)
    n = w.rng.randrange(1000)
    ws.send(json.dumps({"code": f"print({n} * 2)"}))
    if w.rng.random() < 0.3:
        ws.sock.close()
        return
    out, op = "", 0
    while op != 8:
        op, data = ws.recv()
        frame = json.loads(data) if op == 1 else {}
        out += frame.get("text", "") if frame.get("type") == "stdout" else ""
    ws.sock.close()
    must(out == f"{2 * n}\n", out, data)


def op_language_server(w, box):
    if not LSP_AT_ONCE.acquire(blocking=False):
        raise Passing("four are at work")
    try:
        path = f"/tmp/l{w.rng.getrandbits(40)}"
        about = {"languageId": "python", "pathToProject": path}
        call(w.d, "POST", box_path(box, f"files/upload-v2?path={path}/a.py"), b"def f():\n    pass\n")
        call(w.d, "POST", box_path(box, "lsp/start"), about)
        uri = f"file://{path}/a.py"
        call(w.d, "POST", box_path(box, "lsp/did-open"), {**about, "uri": uri})
        got = call(w.d, "GET", box_path(box, "lsp/document-symbols?languageId=python&pathToProject="
                                             f"{path}&uri={uri}"))
        must([s["name"] for s in got] == ["f"], got)
        call(w.d, "POST", box_path(box, "lsp/stop"), about)
    finally:
        LSP_AT_ONCE.release()


def op_search(w, box):
    call(w.d, "GET", box_path(box, "files/search?path=/etc&pattern=host*"))
    call(w.d, "GET", box_path(box, "files/find?path=/etc/passwd&pattern=daytona"))
    call(w.d, "GET", box_path(box, "port"))
    call(w.d, "GET", box_path(box, "system/metrics"))


OPERATIONS = [(op_exec, 8), (op_exec_and_vanish, 6), (op_session, 6), (op_follow_and_vanish, 4),
              (op_terminal, 4), (op_files, 6), (op_upload_and_vanish, 4), (op_git, 2),
              (op_interpreter, 2), (op_language_server, 1), (op_search, 4)]


class Worker(threading.Thread):
    """Operations on its sandboxes in turn, until each has had its share."""

    def __init__(self, d, boxes, each, seed):
        super().__init__(daemon=True)
        self.d, self.boxes, self.each, self.rng = d, boxes, each, random.Random(seed)
        self.done, self.passing, self.lost, self.faults = 0, 0, 0, []

    def run(self):
        ops, weights = zip(*OPERATIONS)
        for _ in range(self.each):
            for box in self.boxes:
                self.one(self.rng.choices(ops, weights)[0], box)

    def one(self, op, box):
        try:
            op(self, box)
            self.done += 1
        except Passing:
            self.passing += 1
        except NETWORK:
            self.lost += 1
            time.sleep(0.05)
        except Exception as e:  # noqa: BLE001
            self.faults.append(f"{op.__name__}: {type(e).__name__}: {e}")


# ---- detached commands, whose whole output is known ----

LINE, KEPT = 64, 1 << 20


def line(box, n):
    return hashlib.sha256(f"{box}:{n}".encode()).hexdigest()[:LINE - 1] + "\n"


# The same inside, with a breath so that it outlives two kills of the daemon.
PROGRAM = """
import hashlib, os, sys, time
box, lines, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
for n in range(lines):
    os.write(1, (hashlib.sha256(f"{box}:{n}".encode()).hexdigest()[:63] + "\\n").encode())
    if n % 1000 == 999:
        time.sleep(pause)
sys.exit(9)
"""


class Detached:
    """A command that says known lines; every second one says more than the ring keeps."""

    def __init__(self, d, box, number, seconds):
        self.d, self.box = d, box
        self.lines = 200000 if number % 2 else 20000
        body = {"argv": ["python3", "-c", PROGRAM, box, str(self.lines),
                         str(seconds / (self.lines / 1000))], "detach": True}
        got = call(d, "POST", f"/caisson/sandboxes/{box}/exec", body,
                   headers={"Idempotency-Key": f"soak-{box}"})
        self.id = got["id"]

    def check(self, seconds=120):
        """Complete up to the ring, byte for byte; what was dropped is counted."""
        path = f"/caisson/sandboxes/{self.box}/exec/{self.id}"
        deadline = time.monotonic() + seconds
        while True:
            got = call(self.d, "GET", f"{path}/wait?timeoutMs=20000")
            if got["state"] == "ended":
                break
            must(got["state"] == "running" and time.monotonic() < deadline, got)
        must((got["exitCode"], got["cause"]) == (9, "exited"), got)
        first, total = got["stdout"]["first"], got["stdout"]["total"]
        must(total == self.lines * LINE, "total", total, self.lines * LINE)
        # The ring of a stream, or what the sandbox's memory leaves for all of them.
        must(total - first >= min(total, KEPT), "kept", first, total)
        data = call(self.d, "GET", f"{path}/output/stdout?offset={first}", raw=True)
        must(len(data) == total - first, "bytes", len(data), total - first)
        at = first // LINE
        want = "".join(line(self.box, n) for n in range(at, self.lines)).encode()[first % LINE:]
        must(data == want, "other bytes than were said")
        return first

