"""Heads that break HTTP are refused in JSON, on a new connection and on one that was used."""
import json
import socket

import pytest

import resthelp

A = b"GET /api/health HTTP/1.1\r\nHost: x\r\n"
P = b"POST /api/sandbox HTTP/1.1\r\nHost: x\r\n"
LONG = b"a" * 60000

BAD = {
    "no version": (b"GET /api/health\r\n\r\n", 400),
    "other version": (b"GET /api/health HTTP/9.9\r\nHost: x\r\n\r\n", 505),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "no host": (b"GET /api/health HTTP/1.1\r\n\r\n", 400),
    "nul in a value": (A + b"X-A: a\0b\r\nX-B: c\r\n\r\n", 400),
    "nul in the last value": (A + b"X-B: q\0zz\r\n\r\n", 400),
    "nul in a name": (A + b"X\0A: ab\r\n\r\n", 400),
    "nul behind a key": (b"GET /api/sandbox HTTP/1.1\r\nHost: x\r\n"
                         b"Authorization: Bearer KEY\0x\r\nX: y\r\n\r\n", 400),
    "no colon": (A + b"XA\r\n\r\n", 400),
    "folded line": (A + b"X-A: a\r\n b\r\n\r\n", 400),
    "space before the colon": (b"GET /api/health HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "long target": (b"GET /" + LONG + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "long value": (A + b"X: " + LONG + b"\r\n\r\n", 431),
    "long method": (LONG + b" / HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "many fields": (A + b"".join(b"X-%d: 1\r\n" % i for i in range(5000)) + b"\r\n", 431),
    "length of letters": (P + b"Content-Length: abc\r\n\r\n", 400),
    "negative length": (P + b"Content-Length: -1\r\n\r\n", 400),
    "huge length": (P + b"Content-Length: 99999999999999999999999\r\n\r\n", 413),
    "two ways of length": (P + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    "unknown encoding": (P + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    "bad chunk": (P + b"Authorization: Bearer KEY\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
}


def read_reply(s):
    data = b""
    while b"\r\n\r\n" not in data:
        got = s.recv(65536)
        assert got, data
        data += got
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
    while len(body) < int(fields["content-length"]):
        got = s.recv(65536)
        assert got, body
        body += got
    return int(lines[0].split()[1]), fields, body


@pytest.mark.parametrize("used", [False, True], ids=["new", "used"])
@pytest.mark.parametrize("name", BAD)
def test_bad_head_is_refused_in_json(api, name, used):
    request, status = BAD[name]
    with socket.create_connection(("127.0.0.1", api.port), timeout=10) as s:
        if used:
            s.sendall(A + b"\r\n")
            assert read_reply(s)[0] == 200
        s.sendall(request.replace(b"KEY", api.key.encode()))
        got, fields, body = read_reply(s)
    assert got == status, body
    assert fields["content-type"].startswith("application/json"), fields
    reply = json.loads(body)
    assert reply["statusCode"] == status and reply["message"] and reply["error"], reply
    assert "<" not in reply["message"]


def test_odd_but_right_heads_are_served(api):
    for extra in (b"X-A:  b  \r\n", b"X-Empty:\r\n", b"Cookie: a=b; c=d\r\n", b"X-T: a\tb\r\n",
                  b"X-U: \xc3\xa9\r\n", b""):
        with socket.create_connection(("127.0.0.1", api.port), timeout=10) as s:
            s.sendall(A + extra + b"\r\n")
            assert read_reply(s)[0] == 200, extra
            # In pieces, and the next behind it on the same connection.
            for byte in A + extra:
                s.sendall(bytes([byte]))
            s.sendall(b"\r\n" + A + extra + b"\r\n")
            assert read_reply(s)[0] == 200, extra


def test_pages_of_a_sandbox_are_left_alone(api, box):
    page = b"<html><head><title>mine</title></head><body>error</body></html>"
    data, kind = resthelp.form([("file", "p.html", page)])
    api.call("POST", f"/toolbox/{box}/files/upload?path=/tmp/p.html", data,
             headers={"Content-Type": kind})
    assert api.request("GET", f"/toolbox/{box}/files/download?path=/tmp/p.html",
                       raw=True) == (200, page)
