"""Trees out and in as a tar: exact, sparse, confined, never half without saying so."""
import gzip
import http.client
import io
import os
import tarfile
import time
from urllib.parse import quote

import pytest

from test_files import fetch
from test_files_find import sh
from test_files_native import native


def down(api, box, path):
    return native(api, "GET", f"/sandboxes/{box}/tar?path={quote(path)}", raw=True)


def up(api, box, path, data):
    return native(api, "PUT", f"/sandboxes/{box}/tar?path={quote(path)}", data)


def pack(entries, **kw):
    """entries: (name, kind, content, fields)"""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", **kw) as tar:
        for name, kind, content, fields in entries:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.mtime = 1700000000
            for k, v in {"mode": 0o755 if kind == tarfile.DIRTYPE else 0o644, **fields}.items():
                setattr(info, k, v)
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                tar.addfile(info)
    return out.getvalue()


ODD = "h\u00e9llo \u65e5\u672c \"q\";\n.txt"


def test_a_tree_goes_out_and_in_exactly(api, box):
    data = os.urandom(300000)
    sh(api, box, "mkdir -p /tmp/tree/a/b /tmp/tree/empty; cd /tmp/tree; echo x > a/f; : > zero;"
       "chmod 750 a/b; chmod 640 a/f; ln -s ../a/f a/b/link; ln -s /etc up; touch -d @1600000000 a/f")
    for name in (ODD, "n" * 200, "big"):
        api.post(f"/toolbox/{box}/files/upload-v2?path={quote(f'/tmp/tree/{name}')}", data)
    status, tar = down(api, box, "/tmp/tree")
    assert status == 200
    got = {m.name: m for m in tarfile.open(fileobj=io.BytesIO(tar))}
    assert set(got) == {"a", "a/b", "a/f", "a/b/link", "empty", "zero", "up", ODD, "n" * 200, "big"}
    assert got["a/b/link"].linkname == "../a/f" and got["up"].issym()
    assert (got["a/b"].mode, got["a/f"].mode, got["a/f"].uid) == (0o750, 0o640, 1000)
    assert got["a/f"].mtime == 1600000000
    assert tarfile.open(fileobj=io.BytesIO(tar)).extractfile(ODD).read() == data
    status, r = up(api, box, "/tmp/copy/deep", tar)
    assert status == 200, r
    assert (r["files"], r["directories"], r["links"], r["skipped"]) == (5, 3, 2, 0)
    sh(api, box, "cd /tmp/tree; ls -lRn . | grep -v ^total | sed 's/  */ /g' | cut -d' ' -f1,3-5 > /tmp/l1;"
       "cd /tmp/copy/deep; ls -lRn . | grep -v ^total | sed 's/  */ /g' | cut -d' ' -f1,3-5 > /tmp/l2;"
       "cmp /tmp/l1 /tmp/l2")
    assert fetch(api, box, f"/tmp/copy/deep/{ODD}")[2] == data
    assert sh(api, box, "stat -c '%a %Y' /tmp/copy/deep/a/f; readlink /tmp/copy/deep/a/b/link;"
              "stat -c %a /tmp/copy/deep/a/b") == "640 1600000000\n../a/f\n750\n"


@pytest.mark.parametrize("squeeze", [gzip.compress, lambda b: b])
def test_compressed_tars_are_taken(api, box, squeeze):
    data = squeeze(pack([("d/f", tarfile.REGTYPE, b"hello", {})]))
    assert up(api, box, "/tmp/z", data)[1]["files"] == 1
    assert sh(api, box, "cat /tmp/z/d/f; rm -r /tmp/z") == "hello"


def test_b20_holes_stay_holes_both_ways(api, box):
    sh(api, box, "mkdir -p /tmp/sp; cd /tmp/sp; echo begin > f; truncate -s 50G f; echo end >> f;"
       "truncate -s 10G allhole")
    began = time.monotonic()
    status, tar = down(api, box, "/tmp/sp")
    assert status == 200 and len(tar) < 1 << 20
    assert up(api, box, "/tmp/sp2", tar)[1]["files"] == 2
    assert time.monotonic() - began < 60
    assert sh(api, box, "cd /tmp/sp2; stat -c '%s' f allhole; head -c 5 f; tail -c 4 f") == (
        f"{(50 << 30) + 4}\n{10 << 30}\nbeginend\n")
    assert all(int(n) < 64 for n in sh(api, box, "stat -c %b /tmp/sp2/f /tmp/sp2/allhole").split())
    sh(api, box, "rm -r /tmp/sp /tmp/sp2")


def test_names_that_lead_out_are_refused(api, box):
    for name in ("../evil", "a/../../evil", "a/..", "/tmp/x/../../etc/evil"):
        status, r = up(api, box, "/tmp/jail", pack([(name, tarfile.REGTYPE, b"x", {})]))
        assert status == 400 and "goes up" in r["message"], (name, r)
    # An absolute name is one below.
    assert up(api, box, "/tmp/jail", pack([("/etc/abs", tarfile.REGTYPE, b"x", {})]))[0] == 200
    assert sh(api, box, "cat /tmp/jail/etc/abs; ls /etc/abs 2>&1 | wc -l") == "x1\n"
    status, r = up(api, box, "/tmp/jail", pack([("h", tarfile.LNKTYPE, b"", {"linkname": "../../etc/passwd"})]))
    assert status == 400 and "goes up" in r["message"]


def test_links_of_an_archive_lead_its_own_names_nowhere(api, box):
    sh(api, box, "mkdir -p /tmp/outside /tmp/jail2")
    data = pack([("d", tarfile.SYMTYPE, b"", {"linkname": "/tmp/outside"}),
                 ("d/f", tarfile.REGTYPE, b"x", {})])
    status, r = up(api, box, "/tmp/jail2", data)
    assert status in (400, 409), r
    assert sh(api, box, "ls /tmp/outside") == ""


def test_links_and_special_files(api, box):
    data = pack([("f", tarfile.REGTYPE, b"x", {}), ("h", tarfile.LNKTYPE, b"", {"linkname": "f"}),
                 ("fifo", tarfile.FIFOTYPE, b"", {}), ("dev", tarfile.CHRTYPE, b"", {}),
                 ("ro", tarfile.DIRTYPE, b"", {"mode": 0o555}), ("ro/in", tarfile.REGTYPE, b"y", {}),
                 ("suid", tarfile.REGTYPE, b"z", {"mode": 0o4755})])
    status, r = up(api, box, "/tmp/sf", data)
    assert status == 200 and r["skipped"] == 2 and r["links"] == 1
    assert sh(api, box, "cd /tmp/sf; stat -c '%a %h' h ro suid; cat ro/in; ls; chmod 755 ro") == (
        "644 2\n555 2\n755 1\nyf\nh\nro\nsuid\n")


def test_an_archive_replaces_files_but_keeps_others(api, box):
    sh(api, box, "mkdir -p /tmp/over; cd /tmp/over; echo old > f; echo keep > k; ln -s k l")
    up(api, box, "/tmp/over", pack([("f", tarfile.REGTYPE, b"new", {}), ("l", tarfile.REGTYPE, b"own", {})]))
    assert sh(api, box, "cd /tmp/over; cat f k l") == "newkeep\nown"


def test_chains_of_links_and_foreign_folders(api, box):
    data = pack([("f", tarfile.REGTYPE, b"x", {}), ("h1", tarfile.LNKTYPE, b"", {"linkname": "f"}),
                 ("h2", tarfile.LNKTYPE, b"", {"linkname": "h1"}), ("h3", tarfile.LNKTYPE, b"", {"linkname": "h2"})])
    assert up(api, box, "/tmp/chain", data)[0] == 200
    assert sh(api, box, "stat -c %h /tmp/chain/h3") == "4\n"
    data = pack([("tmp", tarfile.DIRTYPE, b"", {"mode": 0o700}), ("tmp/in", tarfile.REGTYPE, b"x", {})])
    assert up(api, box, "/", data)[0] == 200
    assert sh(api, box, "stat -c %a /tmp; cat /tmp/in") == "1777\nx"


@pytest.mark.parametrize("data", [b"no tar at all" * 100, b"\x1f\x8b\x08garbage" * 50,
                                  pack([("f", tarfile.REGTYPE, b"x" * 100000, {})])[:50000]])
def test_what_is_no_tar_is_400(api, box, data):
    status, r = up(api, box, "/tmp/bad", data)
    assert status == 400 and r["message"].startswith("tar: "), r


@pytest.mark.parametrize("path,status", [("/nope", 404), ("/etc/passwd", 409), ("/root", 403), ("", 400)])
def test_errors_before_the_first_byte_have_a_status(api, box, path, status):
    assert down(api, box, path)[0] == status
    if path != "/nope":
        got = up(api, box, path, pack([("f", tarfile.REGTYPE, b"x", {})]))[0]
        assert got == status or path == "/root" and got == 403


def test_a_tar_that_breaks_off_is_cut(api, box):
    """A folder that may not be read in the middle of a large tree: the reply never looks whole."""
    sh(api, box, "mkdir -p /tmp/part/zz; cd /tmp/part; head -c 3000000 /dev/urandom > aa; chmod 0 zz")
    try:
        status, _ = down(api, box, "/tmp/part")
    except http.client.IncompleteRead as e:
        assert len(e.partial) > 1 << 20
    else:
        assert status == 403  # it came first
    sh(api, box, "chmod 755 /tmp/part/zz")


def test_many_small_files_and_a_client_that_leaves(api, box):
    data = pack([(f"d{i % 50}/f{i}", tarfile.REGTYPE, b"%d" % i, {}) for i in range(5000)])
    began = time.monotonic()
    assert up(api, box, "/tmp/many", data)[1]["files"] == 5000
    status, tar = down(api, box, "/tmp/many")
    assert time.monotonic() - began < 60
    names = tarfile.open(fileobj=io.BytesIO(tar)).getnames()
    assert len(names) == 5050
    sh(api, box, "head -c 200000000 /dev/urandom > /tmp/many/big")
    for _ in range(5):
        conn = api.connect()
        conn.request("GET", f"/api/caisson/sandboxes/{box}/tar?path=/tmp/many", None,
                     {"Authorization": f"Bearer {api.key}"})
        conn.getresponse().read(1000)
        conn.close()
    sh(api, box, "rm -r /tmp/many")
