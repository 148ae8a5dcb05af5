"""The native dialect's files: uploads in pieces, changes as events."""
import http.client
import json
import os
import socket
import threading
import time
from urllib.parse import quote

import pytest

from test_files import fetch
from test_files_find import sh


def native(api, method, path, body=None, **kw):
    return api.request(method, f"/caisson{path}", body, **kw)


def begin(api, box, path, size):
    status, up = native(api, "POST", f"/sandboxes/{box}/uploads", {"path": path, "size": size})
    assert status == 201, up
    return up


def piece(api, box, up, offset, data, **kw):
    return native(api, "PUT", f"/sandboxes/{box}/uploads/{up['id']}?offset={offset}", data, **kw)


def staged(api, box):
    return sh(api, box, "find / -xdev -name '.caisson-*' 2>/dev/null || true")


def test_one_put_says_whether_it_was_atomic(api, box):
    def put(path, data):
        return native(api, "PUT", f"/sandboxes/{box}/files?path={quote(path)}", data)
    assert put("/tmp/nat/f", b"one") == (200, {"path": "/tmp/nat/f", "bytes": 3, "atomic": True})
    assert put("/tmp/nat/f", b"two")[1]["atomic"] is True
    sh(api, box, "ln /tmp/nat/f /tmp/nat/g")
    assert put("/tmp/nat/f", b"three")[1]["atomic"] is False
    assert sh(api, box, "cat /tmp/nat/g") == "three"
    for path, status in (("/etc/passwd", 403), ("/tmp", 409), ("", 400)):
        got, reply = put(path, b"x")
        assert got == status and reply["message"], reply


def test_b15_an_upload_in_pieces_becomes_the_file_at_its_last_byte(api, box):
    data = os.urandom(3 << 20)
    up = begin(api, box, "/tmp/pieces", len(data))
    assert up["path"] == "/tmp/pieces" and up["offset"] == 0 and up["complete"] is False
    for at in range(0, len(data), 1 << 20):
        assert sh(api, box, "ls /tmp/pieces 2>/dev/null || true") == ""
        status, got = piece(api, box, up, at, data[at:at + (1 << 20)])
        assert status == 200 and got["offset"] == at + (1 << 20)
    assert got["complete"] is True and got["atomic"] is True
    assert fetch(api, box, "/tmp/pieces")[2] == data
    # Who lost the last reply learns it here.
    assert native(api, "GET", f"/sandboxes/{box}/uploads/{up['id']}")[1]["complete"] is True
    assert piece(api, box, up, len(data), b"")[0] == 409
    assert staged(api, box) == ""


def test_b15_a_cut_piece_counts_as_far_as_it_came(api, box):
    data = os.urandom(1 << 20)
    up = begin(api, box, "/tmp/cut-piece", len(data))
    offset = cuts = 0
    while offset < len(data):
        s = socket.create_connection(("127.0.0.1", api.port), timeout=20)
        s.sendall((f"PUT /api/caisson/sandboxes/{box}/uploads/{up['id']}?offset={offset} HTTP/1.1\r\n"
                   f"Host: x\r\nAuthorization: Bearer {api.key}\r\n"
                   f"Content-Length: {len(data) - offset}\r\n\r\n").encode())
        if cuts < 5:
            s.sendall(data[offset:offset + 150000])
            cuts += 1
            deadline = time.monotonic() + 20
            while native(api, "GET", f"/sandboxes/{box}/uploads/{up['id']}")[1]["offset"] == offset:
                assert time.monotonic() < deadline
            # It stays open: a client that comes back must not wait for its end.
        else:
            s.sendall(data[offset:])
            reply = http.client.HTTPResponse(s)
            reply.begin()
            assert reply.status == 200, reply.read()
        now = native(api, "GET", f"/sandboxes/{box}/uploads/{up['id']}")[1]["offset"]
        assert now > offset
        offset = now
        if cuts % 2:
            s.close()
    assert fetch(api, box, "/tmp/cut-piece")[2] == data


def test_pieces_out_of_order_are_refused_with_the_right_offset(api, box):
    up = begin(api, box, "/tmp/order", 10)
    assert piece(api, box, up, 0, b"abc")[1]["offset"] == 3
    for offset in (0, 2, 4, 9):
        status, reply = piece(api, box, up, offset, b"x")
        assert status == 409 and reply["code"] == "UPLOAD_OFFSET" and "at 3" in reply["message"]
    status, reply = piece(api, box, up, 3, b"12345678")
    assert status == 400 and "size of 10" in reply["message"]
    conn = api.connect()
    conn.request("HEAD", f"/api/caisson/sandboxes/{box}/uploads/{up['id']}", None,
                 {"Authorization": f"Bearer {api.key}"})
    reply = conn.getresponse()
    assert reply.status == 200 and reply.getheader("Upload-Offset") == "3" and not reply.read()
    conn.close()
    assert piece(api, box, up, 3, b"1234567")[1]["complete"] is True
    assert sh(api, box, "cat /tmp/order") == "abc1234567"


def test_uploads_end_with_delete_and_with_the_sandbox(api, box, make):
    up = begin(api, box, "/tmp/dropped", 10)
    piece(api, box, up, 0, b"abc")
    assert native(api, "DELETE", f"/sandboxes/{box}/uploads/{up['id']}")[0] == 204
    assert native(api, "GET", f"/sandboxes/{box}/uploads/{up['id']}")[0] == 404
    assert sh(api, box, "ls /tmp/dropped 2>/dev/null || true") == "" and staged(api, box) == ""
    other = make()["id"]
    up = begin(api, other, "/tmp/x", 10)
    piece(api, other, up, 0, b"abc")
    assert native(api, "GET", f"/sandboxes/{box}/uploads/{up['id']}")[0] == 404
    api.post(f"/sandbox/{other}/stop")
    status, reply = native(api, "GET", f"/sandboxes/{other}/uploads/{up['id']}")
    assert status == 410 and reply["code"] == "UPLOAD_LOST"
    api.post(f"/sandbox/{other}/start")
    assert piece(api, other, up, 3, b"def")[0] == 410
    assert sh(api, other, "ls /tmp") == "" and staged(api, other) == ""


def test_uploads_have_a_ceiling(api, make):
    box = make()["id"]
    ups = [begin(api, box, f"/tmp/{i}", 1) for i in range(64)]
    status, reply = native(api, "POST", f"/sandboxes/{box}/uploads", {"path": "/tmp/x", "size": 1})
    assert status == 400 and "at most 64" in reply["message"]
    for up in ups:
        assert piece(api, box, up, 0, b"x")[1]["complete"]
    assert sh(api, box, "ls /tmp | wc -l") == "64\n"


@pytest.mark.parametrize("body,says", [
    ({}, "path: is required"), ({"path": "/tmp/x"}, "size: is required"),
    ({"path": "", "size": 1}, "path: "), ({"path": "/tmp/x", "size": -1}, "size: "),
    ({"path": "/tmp/x", "size": "1"}, "size: ")])
def test_upload_refusals(api, box, body, says):
    status, reply = native(api, "POST", f"/sandboxes/{box}/uploads", body)
    assert status == 400 and says in reply["message"]


def test_an_empty_upload_is_complete_at_once(api, box):
    assert begin(api, box, "/tmp/empty-up", 0)["complete"] is True
    assert sh(api, box, "stat -c %s /tmp/empty-up") == "0\n"


# ---- watching ----

class Watch:
    """A client of the event stream."""

    def __init__(self, api, box, path, recursive=True):
        self.conn = api.connect()
        self.conn.request("GET", f"/api/caisson/sandboxes/{box}/watch?path={quote(path)}"
                          f"&recursive={'true' if recursive else 'false'}", None,
                          {"Authorization": f"Bearer {api.key}"})
        self.reply = self.conn.getresponse()
        assert self.reply.status == 200, self.reply.read()
        assert self.reply.getheader("Content-Type") == "text/event-stream"
        assert self.next()[0] == "ready"

    def next(self):
        kind = None
        while True:
            line = self.reply.readline().decode()
            assert line, "the stream ended"
            if line.startswith("event: "):
                kind = line[7:].strip()
            elif line.startswith("data: "):
                return kind, json.loads(line[6:])

    def until(self, kind, path):
        while True:
            got, data = self.next()
            if (got, data.get("path")) == (kind, path):
                return data

    def close(self):
        self.conn.close()


def test_changes_come_as_events(api, box):
    sh(api, box, "mkdir -p /tmp/watch/a")
    w = Watch(api, box, "/tmp/watch")
    sh(api, box, "echo x > /tmp/watch/a/f; mkdir -p /tmp/watch/b/c; echo > /tmp/watch/b/c/g;"
       "mv /tmp/watch/a/f /tmp/watch/h; chmod 600 /tmp/watch/h; rm /tmp/watch/h")
    assert w.until("create", "/tmp/watch/a/f") == {"path": "/tmp/watch/a/f", "isDir": False}
    w.until("write", "/tmp/watch/a/f")
    assert w.until("create", "/tmp/watch/b")["isDir"] is True
    w.until("create", "/tmp/watch/b/c/g")
    w.until("rename", "/tmp/watch/a/f")
    assert w.until("create", "/tmp/watch/h")["from"] == "/tmp/watch/a/f"
    w.until("chmod", "/tmp/watch/h")
    w.until("remove", "/tmp/watch/h")
    api.post(f"/toolbox/{box}/files/upload-v2?path=/tmp/watch/up", b"x")
    # Nothing of the file is told while it has no name.
    assert w.next() == ("create", {"path": "/tmp/watch/up", "isDir": False})
    sh(api, box, "rm -r /tmp/watch")
    while w.next()[0] != "end":
        pass
    w.close()


def test_lost_changes_are_told(api, box):
    sh(api, box, "mkdir -p /tmp/flood")
    w = Watch(api, box, "/tmp/flood")
    # Nobody reads: buffers fill, then the queue in the sandbox.
    sh(api, box, "cd /tmp/flood; i=0; while [ $i -lt 60000 ]; do : > a-name-that-takes-room-$i;"
       " i=$((i + 1)); done")
    w.until("overflow", "/tmp/flood")
    sh(api, box, "echo > /tmp/flood/after")
    w.until("create", "/tmp/flood/after")
    w.close()
    sh(api, box, "rm -r /tmp/flood")


def test_a_watch_ends_with_its_sandbox_and_its_client(api, make):
    box = make()["id"]
    w = Watch(api, box, "/tmp", recursive=False)
    ended = []
    t = threading.Thread(target=lambda: ended.append(w.next()))
    t.start()
    api.post(f"/sandbox/{box}/stop")
    t.join(20)
    assert ended and ended[0][0] == "error" and "not started" in ended[0][1]["message"] or \
        ended[0][1]["statusCode"] in (409, 410), ended
    w.close()
    api.post(f"/sandbox/{box}/start")
    # Clients that leave give their place back.
    deadline = time.monotonic() + 60
    for _ in range(40):
        while True:
            try:
                Watch(api, box, "/tmp").close()
                break
            except AssertionError:
                assert time.monotonic() < deadline
                time.sleep(0.1)


@pytest.mark.parametrize("query,status", [
    ("", 400), ("?path=/nope", 404), ("?path=/tmp&recursive=x", 400), ("?path=/root", 403)])
def test_watch_refusals(api, box, query, status):
    assert native(api, "GET", f"/sandboxes/{box}/watch{query}")[0] == status


def test_b15_five_gib_in_pieces_with_flat_memory(api, box):
    """Mostly zeros, so that it fits any disk; each piece is sent, none is kept."""
    size, step = 5 << 30, 64 << 20
    block = bytes(step)
    marks = {0: b"begin", size // 2: b"middle", size - 3: b"end"}
    up = begin(api, box, "/tmp/five", size)
    pid = api.pids()["api"]

    def rss():
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1])
    piece(api, box, up, 0, b"begin" + block[5:])
    before, conn = rss(), api.connect()
    for at in range(step, size, step):
        data = block
        for where, text in marks.items():
            if at <= where < at + step:
                data = block[:where - at] + text + block[where - at + len(text):]
        status, got = piece(api, box, up, at, data, conn=conn)
        assert status == 200, got
    conn.close()
    assert got["complete"] is True
    assert rss() - before < 8 << 10
    assert sh(api, box, "cd /tmp; stat -c %s five; head -c 5 five; tail -c 3 five;"
              f"dd if=five bs=1M skip={(size // 2) >> 20} count=1 2>/dev/null | head -c 6") == \
        f"{size}\nbeginendmiddle"
    blocks = int(sh(api, box, "stat -c %b /tmp/five; rm /tmp/five"))
    assert blocks * 512 < 64 << 20
