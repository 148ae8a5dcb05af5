"""Files in and out: contents exact, names exact, errors of their own, memory flat."""
import hashlib
import json
import os
import socket
import threading
import time
from urllib.parse import quote

import pytest

from resthelp import form, parse_multipart, refused

ODD = "h\u00e9llo \u65e5\u672c \"q\";\n.txt"
LONG = "\u65e5" * 85  # 255 bytes


def box_url(box, route, **query):
    text = "&".join(f"{k}={quote(str(v), safe='')}" for k, v in query.items())
    return f"/toolbox/{box}{route}" + (f"?{text}" if text else "")


def put(api, box, path, data, **query):
    return api.post(box_url(box, "/files/upload-v2", path=path, **query), data)


def fetch(api, box, path, head=None):
    conn = api.connect()
    conn.request("GET", box_url(box, "/files/download", path=path), None,
                 {"Authorization": f"Bearer {api.key}", **(head or {})})
    reply = conn.getresponse()
    data = reply.read()
    conn.close()
    return reply.status, dict((k.lower(), v) for k, v in reply.getheaders()), data


def info(api, box, path):
    return api.get(box_url(box, "/files/info", path=path))


@pytest.mark.parametrize("name", ["plain.txt", ODD, LONG, " lead", "-rf", "a%20b", "$(id)", "'q'",
                                  "tab\there", "\\", "~", "#?&=+"])
def test_b1_names_and_bytes_are_exact(api, box, name):
    data = os.urandom(3000) + name.encode()
    path = f"/tmp/b1/{name}"
    assert put(api, box, path, data)["path"] == path
    status, head, got = fetch(api, box, path)
    assert status == 200 and got == data
    assert head["content-disposition"].endswith(f"filename*=UTF-8''{quote(name, safe=chr(33)+'#$&+-.^_`|~')}")
    assert info(api, box, path)["name"] == name
    listed = api.get(box_url(box, "/files", path="/tmp/b1"))
    assert name in [e["name"] for e in listed]


def test_upload_as_form_and_legacy(api, box):
    for route in ("/files/upload-v2", "/files/upload"):
        body, kind = form([("note", None, b"x"), ("file", "n.bin", b"\0\r\n--x-b-y\n\xff")])
        got = api.post(box_url(box, route, path="/tmp/form"), body, headers={"Content-Type": kind})
        assert got == {"name": "form", "path": "/tmp/form", "type": "file", "bytes": 12}
        assert fetch(api, box, "/tmp/form")[2] == b"\0\r\n--x-b-y\n\xff"


def test_upload_refusals(api, box):
    refused(api, 400, "POST", box_url(box, "/files/upload-v2"), b"x", says="path: is required")
    refused(api, 400, "POST", box_url(box, "/files/upload-v2", path=""), b"x", says="path: ")
    refused(api, 400, "POST", box_url(box, "/files/upload-v2", path="/" + "x" * 5000), b"x",
            says="path: ")
    body, kind = form([("other", None, b"x")])
    refused(api, 400, "POST", box_url(box, "/files/upload-v2", path="/tmp/x"), body,
            headers={"Content-Type": kind}, says="file: is required")
    refused(api, 400, "POST", box_url(box, "/files/upload-v2", path="/tmp/x"), b"x",
            headers={"Content-Type": "multipart/form-data"})
    status, _ = api.request("POST", box_url(box, "/files/upload-v2", path="/tmp"), b"x")
    assert status in (400, 409)
    refused(api, 403, "POST", box_url(box, "/files/upload-v2", path="/etc/passwd"), b"x",
            code="FILE_ACCESS_DENIED")


def test_uploaded_files_belong_to_the_user(api, box):
    put(api, box, "/home/daytona/deep/er/f", b"x")
    e = info(api, box, "/home/daytona/deep/er/f")
    assert (e["owner"], e["group"], e["permissions"]) == ("1000", "1000", "0644")


def test_b3_uploaded_file_is_there_at_once(api, box):
    conn = api.connect()
    for i in range(1000):
        api.post(box_url(box, "/files/upload-v2", path=f"/tmp/now{i}"), b"x", conn=conn)
        status, got = api.request("POST", f"/toolbox/{box}/process/execute",
                                  {"command": f"test -f /tmp/now{i}"}, conn=conn)
        assert status == 200 and got["exitCode"] == 0, i
    conn.close()


def test_b15_upload_goes_on_at_an_offset(api, box):
    whole = os.urandom(3 << 20)
    for at in range(0, len(whole), 1 << 20):
        put(api, box, "/tmp/parts", whole[at:at + (1 << 20)], offset=at)
        assert info(api, box, "/tmp/parts")["size"] == at + (1 << 20)
    assert fetch(api, box, "/tmp/parts")[2] == whole
    refused(api, 400, "POST", box_url(box, "/files/upload-v2", path="/tmp/parts", offset=-1), b"x",
            says="offset: ")


def test_ranges(api, box):
    put(api, box, "/tmp/range", bytes(range(200)))
    for text, want in (("bytes=0-9", range(10)), ("bytes=190-", range(190, 200)),
                       ("bytes=-5", range(195, 200)), ("bytes=100-99999", range(100, 200))):
        status, head, got = fetch(api, box, "/tmp/range", {"Range": text})
        assert (status, got) == (206, bytes(want)), text
        assert head["content-range"] == f"bytes {want[0]}-{want[-1]}/200"
    for text in ("lines=1-2", "bytes=9-1", "bytes=x", "bytes=0-1,5-6"):
        assert fetch(api, box, "/tmp/range", {"Range": text})[2] == bytes(range(200)), text
    status, head, _ = fetch(api, box, "/tmp/range", {"Range": "bytes=200-"})
    assert status == 416 and head["content-range"] == "bytes */200"


def test_head_of_a_download(api, box):
    put(api, box, "/tmp/head", b"x" * 777)
    conn = api.connect()
    conn.request("HEAD", box_url(box, "/files/download", path="/tmp/head"), None,
                 {"Authorization": f"Bearer {api.key}"})
    reply = conn.getresponse()
    assert reply.status == 200 and reply.getheader("Content-Length") == "777" and not reply.read()
    conn.request("HEAD", box_url(box, "/files/download", path="/nope"), None,
                 {"Authorization": f"Bearer {api.key}"})
    assert conn.getresponse().status == 404
    conn.close()


@pytest.mark.parametrize("path,status,code", [
    ("/nope", 404, "FILE_NOT_FOUND"), ("/etc/passwd/x", 409, "CONFLICT"),
    ("/root/x", 403, "FILE_ACCESS_DENIED"), ("/tmp", 409, "CONFLICT"), ("", 400, None),
    ("/dev/zero", 400, None), ("/proc/1/root/etc/shadow", 403, None),
])
def test_b8_errors_of_downloads(api, box, path, status, code):
    got, reply = api.request("GET", box_url(box, "/files/download", path=path))
    assert got == status or (got in (400, 403, 404) and code is None), reply
    assert code is None or reply["code"] == code, reply


def test_b5_paths_resolve_inside(api, box):
    api.exec(box, "ln -sf / /tmp/slash; ln -sf ../../../../etc/passwd /tmp/up; mkfifo /tmp/fifo")
    inside = api.exec(box, "cat /etc/passwd")["result"].encode()
    for path in ("/tmp/slash/etc/passwd", "/tmp/up", "/../../etc/passwd", "../../../etc/passwd",
                 "/tmp/../../../etc/passwd"):
        assert fetch(api, box, path)[2] == inside, path
    began = time.monotonic()
    assert fetch(api, box, "/tmp/fifo")[0] in (400, 403, 409)
    assert time.monotonic() - began < 5


def test_info_and_listing(api, box):
    api.exec(box, "mkdir -p /tmp/l/d && echo hi > /tmp/l/f && chmod 4751 /tmp/l/f && "
                  "ln -s f /tmp/l/s && touch -d '2020-01-02 03:04:05' /tmp/l/f; date +%s")
    e = info(api, box, "/tmp/l/f")
    assert e["size"] == 3 and e["isDir"] is False and e["path"] == "/tmp/l/f"
    assert e["mode"] == "-rwsr-x--x" and e["permissions"] == "4751"
    assert e["modifiedAt"] == "2020-01-02T03:04:05.000000000Z"
    assert e["modTime"].startswith("2020-01-02 03:04:05") and e["modTime"].endswith(" +0000 UTC")
    names = {x["name"]: x for x in api.get(box_url(box, "/files", path="/tmp/l"))}
    assert set(names) == {"d", "f", "s"}
    assert names["d"]["isDir"] is True and names["d"]["mode"].startswith("d")
    assert names["s"]["mode"].startswith("l") and names["s"]["linkTarget"] == "f"
    assert api.get(box_url(box, "/files/", path="/tmp/l"))  # old clients' form
    put(api, box, "/tmp/l/d/deep", b"x")
    deep = {x["path"] for x in api.get(box_url(box, "/files", path="/tmp/l", depth=2))}
    assert "/tmp/l/d/deep" in deep
    assert isinstance(api.get(box_url(box, "/files")), list)
    for query, says in (({"path": "/nope"}, ""), ({"path": "/tmp/l", "depth": 0}, "depth: "),
                        ({"path": "/tmp/l", "depth": "x"}, "depth: ")):
        status, reply = api.request("GET", box_url(box, "/files", **query))
        assert status in (400, 404) and says in reply["message"], reply


def test_b16_many_entries_are_all_listed(api, box):
    api.exec(box, "mkdir /tmp/many; cd /tmp/many; seq 1 20000 | xargs touch", timeout=60)
    assert len(api.get(box_url(box, "/files", path="/tmp/many"))) == 20000


def test_folders(api, box):
    status, text = api.request("POST", box_url(box, "/files/folder", path="/tmp/a/b/c", mode="700"),
                               raw=True)
    assert (status, text) == (201, b"")
    assert info(api, box, "/tmp/a/b/c")["permissions"] == "0700"
    assert api.request("POST", box_url(box, "/files/folder", path="/tmp/a/b/c", mode="0755"))[0] == 201
    assert api.request("POST", box_url(box, "/files/folder", path="rel/x"))[0] == 201
    assert info(api, box, "/home/daytona/rel/x")["isDir"] is True
    for mode in ("9", "rwx", "77777", "-1", "0o7"):
        refused(api, 400, "POST", box_url(box, "/files/folder", path="/tmp/m", mode=mode),
                says="mode: ")
    refused(api, 403, "POST", box_url(box, "/files/folder", path="/etc/x"))
    status, _ = api.request("POST", box_url(box, "/files/folder", path="/etc/passwd/x"))
    assert status in (400, 404, 409)


def test_delete(api, box):
    put(api, box, "/tmp/del/f", b"x")
    refused(api, 400, "DELETE", box_url(box, "/files", path="/tmp/del"))
    status, text = api.request("DELETE", box_url(box, "/files", path="/tmp/del", recursive="true"),
                               raw=True)
    assert (status, text) == (204, b"")
    refused(api, 404, "DELETE", box_url(box, "/files", path="/tmp/del"), code="FILE_NOT_FOUND")
    put(api, box, "/tmp/del2", b"x")
    assert api.request("DELETE", box_url(box, "/files/", path="/tmp/del2"))[0] == 204
    refused(api, 400, "DELETE", box_url(box, "/files"), says="path: is required")
    refused(api, 400, "DELETE", box_url(box, "/files", path="/tmp/x", recursive="si"),
            says="recursive: ")
    refused(api, 403, "DELETE", box_url(box, "/files", path="/etc/passwd"))


def test_move(api, box):
    put(api, box, "/tmp/mv/a", b"data")
    status, _ = api.request("POST", box_url(box, "/files/move", source="/tmp/mv/a",
                                            destination="/tmp/mv/" + quote(ODD, safe="")))
    assert status == 200
    refused(api, 404, "POST", box_url(box, "/files/move", source="/tmp/mv/a", destination="/tmp/b"))
    put(api, box, "/tmp/mv/c", b"x")
    refused(api, 404, "POST", box_url(box, "/files/move", source="/tmp/mv/c",
                                      destination="/tmp/no/such/dir"))
    refused(api, 400, "POST", box_url(box, "/files/move", source="/tmp/mv/c"),
            says="destination: is required")


def test_permissions(api, box):
    put(api, box, "/tmp/perm", b"x")
    assert api.request("POST", box_url(box, "/files/permissions", path="/tmp/perm",
                                       mode="0600"))[0] == 200
    assert info(api, box, "/tmp/perm")["permissions"] == "0600"
    assert api.request("POST", box_url(box, "/files/permissions", path="/tmp/perm",
                                       group="extra"))[0] == 200
    assert info(api, box, "/tmp/perm")["group"] == "2000"
    refused(api, 403, "POST", box_url(box, "/files/permissions", path="/tmp/perm", owner="root"))
    refused(api, 400, "POST", box_url(box, "/files/permissions", path="/tmp/perm"), says="mode: ")
    refused(api, 404, "POST", box_url(box, "/files/permissions", path="/nope", mode="644"))
    status, _ = api.request("POST", box_url(box, "/files/permissions", path="/tmp/perm",
                                            owner="no-such-user"))
    assert 400 <= status < 500


# ---- many files in one call ----

def bulk(api, box, parts):
    body, kind = form(parts)
    return api.request("POST", box_url(box, "/files/bulk-upload"), body,
                       headers={"Content-Type": kind})


def test_bulk_upload_paired_and_paths_first(api, box):
    names = [f"/tmp/bulk/{i}/{ODD}" for i in range(5)]
    datas = [os.urandom(1000 * i) for i in range(5)]
    paired = []
    for i, name in enumerate(names):
        paired += [(f"files[{i}].path", None, name.encode()), (f"files[{i}].file", "f", datas[i])]
    paths_first = sorted(paired, key=lambda p: not p[0].endswith("path"))
    for order in (paired, paths_first):
        status, got = bulk(api, box, order)
        assert status == 200, got
        assert got["files"] == [{"path": n, "bytes": len(d)} for n, d in zip(names, datas)]
        for n, d in zip(names, datas):
            assert fetch(api, box, n)[2] == d


def test_b13_each_file_has_its_own_error(api, box):
    parts = []
    for i in range(10):
        path = "/etc/nope" if i in (2, 5) else "/tmp" if i == 7 else f"/tmp/b13-{i}"
        parts += [(f"files[{i}].path", None, path.encode()), (f"files[{i}].file", "f", b"x" * i)]
    status, got = bulk(api, box, parts)
    assert status == 400 and len(got["errors"]) == 3 and len(got["files"]) == 7, got
    assert got["errors"][0].startswith("/etc/nope: "), got
    assert got["message"] == "3 of 10 files were not written: " + got["errors"][0], got
    far = "/etc/" + "\u65e5" * 1000
    status, got = bulk(api, box, [("files[0].path", None, far.encode()), ("files[0].file", "f", b"")])
    assert status == 400 and got["message"].startswith("1 of 1 files were not written: /etc/"), got
    assert len(got["message"].encode()) < 400 and "\ufffd" not in got["message"], got
    assert got["source"] == "DAYTONA_DAEMON" and got["statusCode"] == 400


@pytest.mark.parametrize("parts", [
    [], [("files[0].file", "f", b"x")], [("files[0].path", None, b"/tmp/x")],
    [("files[0].path", None, b""), ("files[0].file", "f", b"x")],
    [("files[0].path", None, b"/tmp/a\0b"), ("files[0].file", "f", b"x")],
    [("files[0].path", None, b"/tmp/x" * 1000), ("files[0].file", "f", b"x")],
    [("files[0].path", None, b"/tmp/x"), ("files[1].file", "f", b"x")],
])
def test_bad_forms_are_400(api, box, parts):
    status, got = bulk(api, box, parts)
    assert status == 400 and got["message"], got


def test_cut_form_is_400(api, box):
    body, kind = form([("files[0].path", None, b"/tmp/x"), ("files[0].file", "f", b"x" * 1000)])
    status, got = api.request("POST", box_url(box, "/files/bulk-upload"), body[:-10],
                              headers={"Content-Type": kind})
    assert status == 400, got


def test_bulk_download(api, box):
    put(api, box, f"/tmp/bd/{ODD}", b"one")
    put(api, box, "/tmp/bd/two", b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n")
    put(api, box, "/tmp/bd/empty", b"")
    paths = [f"/tmp/bd/{ODD}", "/nope", "/tmp/bd/two", "/tmp/bd/empty", "/tmp/bd"]
    status, raw = api.request("POST", box_url(box, "/files/bulk-download"), {"paths": paths}, raw=True)
    assert status == 200
    parts = parse_multipart(raw)
    names = [p[0]["content-disposition"] for p in parts]
    for path, name in zip(paths, names):
        assert name.endswith("filename*=UTF-8''" + quote(path, safe="!#$&+-.^_`|~")), name
    assert [n.split(";")[1].strip() for n in names] == [
        'name="file"', 'name="error"', 'name="file"', 'name="file"', 'name="error"']
    assert parts[0][1] == b"one" and parts[3][1] == b""
    assert parts[2][1] == b"\r\n--DAYTONA-FILE-BOUNDARY--\r\n"
    error = json.loads(parts[1][1])
    assert error["code"] == "FILE_NOT_FOUND" and error["statusCode"] == 404, error
    assert error["source"] == "DAYTONA_DAEMON"


@pytest.mark.parametrize("body,says", [
    ({"paths": []}, "paths: "), ({}, "paths: is required"), ({"paths": [5]}, "paths[0]: "),
    ({"paths": "x"}, "paths: "), ({"paths": [""]}, "paths[0]: "),
    ({"paths": ["x"] * 1001}, "paths: "),
])
def test_bad_bulk_download(api, box, body, says):
    refused(api, 400, "POST", box_url(box, "/files/bulk-download"), body, says=says)


def test_unknown_sandbox_is_404_on_every_file_route(api):
    ghost = "00000000-0000-4000-8000-000000000000"
    body, kind = form([("files[0].path", None, b"/tmp/x"), ("files[0].file", "f", b"x")])
    for method, path, data, head in (
            ("GET", "/files?path=/", None, {}), ("GET", "/files/info?path=/", None, {}),
            ("DELETE", "/files?path=/x", None, {}), ("GET", "/files/download?path=/x", None, {}),
            ("POST", "/files/upload-v2?path=/x", b"x", {}),
            ("POST", "/files/bulk-upload", body, {"Content-Type": kind}),
            ("POST", "/files/bulk-download", {"paths": ["/x"]}, {}),
            ("POST", "/files/folder?path=/x", None, {}),
            ("POST", "/files/move?source=/x&destination=/y", None, {}),
            ("POST", "/files/permissions?path=/x&mode=644", None, {})):
        status, reply = api.request(method, f"/toolbox/{ghost}{path}", data, headers=head)
        assert status == 404 and reply["code"] == "NOT_FOUND", (path, status, reply)


@pytest.mark.parametrize("method,path,says", [
    ("GET", "/files/download?path=/tmp", "path: /tmp is a directory"),
    ("POST", "/files/upload-v2?path=/tmp", "path: /tmp is a directory"),
    ("GET", "/files/download?path=/nope", "path: /nope: No such file"),
    ("GET", "/files/info?path=/nope", "path: /nope: No such file"),
    ("GET", "/files?path=/nope", "path: /nope: No such file"),
    ("GET", "/files/download?path=/dev/null", "path: /dev/null: not a regular file"),
    ("DELETE", "/files?path=/tmp", "path: remove /tmp: a directory, recursive is not set"),
    ("POST", "/files/folder?path=/etc/x", "path: mkdir /etc/x: Permission denied"),
    ("POST", "/files/permissions?path=/etc&mode=700", "path: chmod /etc: Operation not permitted"),
    ("POST", "/files/permissions?path=/tmp&owner=nobodyx", "owner: no "),
    ("POST", "/files/move?source=/tmp/no1&destination=/tmp/no2", "source, destination: rename /tmp/no1"),
    ("POST", "/files/move?source=/tmp/no1&destination=/var/no2/x", "destination: /var/no2/: No such"),
    ("POST", "/files/move?source=/var/no1/x&destination=/tmp/x", "source: /var/no1/: No such"),
])
def test_errors_of_files_name_the_field(api, box, method, path, says):
    status, got = api.request(method, f"/toolbox/{box}{path}", b"x" if "upload" in path else None)
    assert 400 <= status < 410 and got["message"].startswith(says), got


# ---- size ----

def rss_kib(api):
    with open(f"/proc/{api.pids()['api']}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def test_b15_big_files_both_ways_with_flat_memory(api, box):
    size = (5 << 30) if os.environ.get("CAISSON_SOAK") == "1" else (200 << 20)
    block = os.urandom(1 << 20)
    h = hashlib.sha256()
    for _ in range(size >> 20):
        h.update(block)
    want = h.hexdigest()
    before = rss_kib(api)
    s = socket.create_connection(("127.0.0.1", api.port))
    s.sendall(f"POST {box_url(box, '/files/upload-v2', path='/tmp/big')} HTTP/1.1\r\nHost: x\r\n"
              f"Authorization: Bearer {api.key}\r\nContent-Length: {size}\r\n\r\n".encode())
    for _ in range(size >> 20):
        s.sendall(block)
    assert b" 200 " in s.recv(4096)
    s.close()
    conn = api.connect()
    conn.timeout = 1200
    assert api.post(box_url(box, "/process/execute"), {"command": "sha256sum /tmp/big",
                    "timeout": 1200}, conn=conn)["result"].split()[0] == want
    for method, path, body in (("GET", box_url(box, "/files/download", path="/tmp/big"), None),
                               ("POST", box_url(box, "/files/bulk-download"),
                                json.dumps({"paths": ["/tmp/big"]}))):
        conn.request(method, path, body, {"Authorization": f"Bearer {api.key}"})
        reply, got = conn.getresponse(), 0
        while chunk := reply.read(1 << 20):
            got += len(chunk)
        assert got >= size
    conn.close()
    assert rss_kib(api) < before + 24 * 1024
    api.exec(box, "rm /tmp/big")


def test_client_that_stops_in_the_middle_leaves_the_server_well(api, box):
    for _ in range(20):
        s = socket.create_connection(("127.0.0.1", api.port))
        s.sendall(f"POST {box_url(box, '/files/upload-v2', path='/tmp/cut')} HTTP/1.1\r\nHost: x\r\n"
                  f"Authorization: Bearer {api.key}\r\nContent-Length: 1000000\r\n\r\n".encode()
                  + b"x" * 5000)
        s.close()
    assert api.exec(box, "echo ok")["result"] == "ok\n"


def test_uploads_at_once(api, box):
    bad = []

    def worker(i):
        data = os.urandom(100000)
        put(api, box, f"/tmp/par{i}", data)
        if fetch(api, box, f"/tmp/par{i}")[2] != data:
            bad.append(i)
    threads = [threading.Thread(target=worker, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad
