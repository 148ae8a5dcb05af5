"""Uploads take their place whole or not at all, and keep what a file was."""
import http.client
import os
import socket
import time

import pytest

from resthelp import form, refused, wait_for
from test_files import fetch
from test_files_find import sh, url


def put(api, box, path, data, **kw):
    return api.post(url(box, "/upload-v2", path=path), data, **kw)


def staged(api, box):
    return sh(api, box, "find / -xdev -name '.caisson-*' 2>/dev/null || true")


def cut(api, box, route, body, length, headers=()):
    """Begin an upload and hang up in the middle of it."""
    s = socket.create_connection(("127.0.0.1", api.port), timeout=20)
    head = [f"POST {route} HTTP/1.1", "Host: x", f"Authorization: Bearer {api.key}",
            f"Content-Length: {length}", *headers]
    s.sendall("\r\n".join(head + ["", ""]).encode() + body)
    time.sleep(0.05)  # so that the daemon reads some of it before the end
    s.close()


def test_a_cut_upload_leaves_the_old_file_and_nothing_else(api, box):
    put(api, box, "/tmp/cut", b"old")
    body, kind = form([("file", "f", b"y" * 100000)])
    for _ in range(5):
        cut(api, box, url(box, "/upload-v2", path="/tmp/cut"), b"x" * 100000, 1 << 20)
        cut(api, box, url(box, "/upload-v2", path="/tmp/cutnew"), b"x" * 100000, 1 << 20)
        cut(api, box, url(box, "/upload-v2", path="/tmp/cut"), body[:-20], len(body),
            [f"Content-Type: {kind}"])
    assert sh(api, box, "cat /tmp/cut; ls /tmp/cutnew 2>&1 || true").startswith("oldls: ")
    wait_for(lambda: staged(api, box) == "")


def test_a_broken_form_leaves_the_old_file(api, box):
    put(api, box, "/tmp/broken", b"old")
    body, kind = form([("file", "f", b"y" * 100000)])
    refused(api, 400, "POST", url(box, "/upload-v2", path="/tmp/broken"), body[:-4],
            headers={"Content-Type": kind})
    assert sh(api, box, "cat /tmp/broken") == "old" and staged(api, box) == ""


def test_readers_see_the_old_or_the_new_file(api, box):
    """A loop that reads never meets an empty or half file while it is replaced."""
    put(api, box, "/tmp/swap", b"a" * 70000)
    api.post(f"/toolbox/{box}/process/execute", {"command":
             "(while [ ! -e /tmp/swap.end ]; do wc -c < /tmp/swap; done | sort -u > /tmp/swap.seen;"
             " mv /tmp/swap.seen /tmp/swap.done) > /dev/null 2>&1 &"})
    conn = api.connect()
    for i in range(200):
        api.post(url(box, "/upload-v2", path="/tmp/swap"), b"ab"[i % 2:i % 2 + 1] * 70000, conn=conn)
    conn.close()
    sh(api, box, "touch /tmp/swap.end")
    wait_for(lambda: api.post(f"/toolbox/{box}/process/execute",
                              {"command": "cat /tmp/swap.done"})["exitCode"] == 0)
    assert sh(api, box, "cat /tmp/swap.done") == "70000\n"


def test_b10_owner_mode_and_links_are_kept(api, box):
    sh(api, box, "cd /tmp; echo 1 > b10; chmod 0440 b10; echo 2 > h1; ln h1 h2; ln -s b10 sym;"
       "ln -s dang/ling dangling; mkdir dang")
    for name in ("b10", "h1", "sym", "dangling"):
        put(api, box, f"/tmp/{name}", b"new " + name.encode())
    assert sh(api, box, "cd /tmp; stat -c %a b10; cat b10 h2 dang/ling; readlink sym; readlink dangling") == (
        "440\nnew symnew h1new danglingb10\ndang/ling\n")
    assert sh(api, box, "stat -c '%a %u' /tmp/dang/ling") == "644 1000\n"
    assert staged(api, box) == ""


def test_b10_a_mounted_file_is_written_in_place(api, box):
    """The resolver's file is a mount of the sandbox; root's, so it says 403 and not 500."""
    status, reply = api.request("POST", url(box, "/upload-v2", path="/etc/resolv.conf"), b"x")
    assert status == 403, reply


def test_a_lower_file_is_replaced(api, make):
    sb = make(user="root")["id"]
    before = sh(api, sb, "stat -c '%a %u %g' /etc/passwd")
    old = sh(api, sb, "cat /etc/passwd")
    put(api, sb, "/etc/passwd", old.encode() + b"new:x:1234:1234::/:/bin/sh\n")
    assert sh(api, sb, "stat -c '%a %u %g' /etc/passwd") == before
    assert sh(api, sb, "id -u new") == "1234\n"
    put(api, sb, "/etc/resolv.conf", b"nameserver 127.0.0.9\n")
    assert "127.0.0.9" in sh(api, sb, "cat /etc/resolv.conf")


@pytest.mark.parametrize("as_form", [False, True])
def test_b20_zeros_take_no_blocks(api, box, as_form):
    hole, end = b"\0" * (16 << 20), os.urandom(5000)
    data, headers = b"start" + hole + end + hole, None
    if as_form:
        data, kind = form([("file", "f", data)])
        headers = {"Content-Type": kind}
    put(api, box, "/tmp/sparse", data, headers=headers)
    size, blocks = sh(api, box, "stat -c '%s %b' /tmp/sparse").split()
    assert int(size) == 5 + 5000 + (32 << 20) and int(blocks) * 512 < 1 << 20
    assert fetch(api, box, "/tmp/sparse")[2] == b"start" + hole + end + hole


def test_bulk_keeps_what_was_whole(api, box):
    body, kind = form([("files[0].path", None, b"/tmp/bulk/a"), ("files[0].file", "a", b"A" * 9),
                       ("files[1].path", None, b"/etc/no"), ("files[1].file", "b", b"B"),
                       ("files[2].path", None, b"/tmp/bulk/c"), ("files[2].file", "c", b"")])
    got = refused(api, 400, "POST", url(box, "/bulk-upload"), body, headers={"Content-Type": kind})
    assert [f["path"] for f in got["files"]] == ["/tmp/bulk/a", "/tmp/bulk/c"]
    assert len(got["errors"]) == 1 and "/etc/no" in got["errors"][0]
    assert sh(api, box, "cd /tmp/bulk; wc -c a c | head -n 2") == "        9 a\n        0 c\n"
    assert staged(api, box) == ""


def test_uploads_at_once_do_not_block_other_calls(api, box):
    """40 uploads that stand still, and a listing meanwhile."""
    conns = []
    for i in range(40):
        s = socket.create_connection(("127.0.0.1", api.port), timeout=20)
        s.sendall((f"POST {url(box, '/upload-v2', path=f'/tmp/slow{i}')} HTTP/1.1\r\nHost: x\r\n"
                   f"Authorization: Bearer {api.key}\r\nContent-Length: 10\r\n\r\nhalf.").encode())
        conns.append(s)
    began = time.monotonic()
    api.get(url(box, "", path="/tmp"))
    put(api, box, "/tmp/meanwhile", b"x")
    assert time.monotonic() - began < 5
    for s in conns:
        s.sendall(b"done.")
        reply = http.client.HTTPResponse(s)
        reply.begin()
        assert reply.status == 200
        s.close()
    assert sh(api, box, "cat /tmp/slow39; ls /tmp/slow* | wc -l") == "half.done.40\n"
