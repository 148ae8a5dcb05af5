"""What the REST tests share: error bodies, multipart, WebSockets; standard library only."""
import base64
import hashlib
import json
import os
import re
import socket
import struct
import time
from urllib.parse import unquote

ISO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")


def refused(api, status, method, path, body=None, says=(), code=None, **kw):
    """The call fails with this status and a body of the contract; returns the body."""
    got, reply = api.request(method, path, body, **kw)
    assert got == status, (got, reply)
    assert isinstance(reply, dict), reply
    assert reply["statusCode"] == status and ISO.match(reply["timestamp"]), reply
    toolbox = path.startswith("/toolbox")
    assert reply["source"] == ("DAYTONA_DAEMON" if toolbox else "DAYTONA_API"), reply
    assert reply["path"] == unquote((path if toolbox else f"/api{path}").split("?")[0]), reply
    if toolbox:
        assert reply["method"] == method, reply
    else:
        assert reply["error"], reply
    for text in [says] if isinstance(says, str) else says:
        assert text in reply["message"], reply
    if code:
        assert reply["code"] == code, reply
    return reply


def wait_for(fn, seconds=20):
    deadline = time.monotonic() + seconds
    while True:
        got = fn()
        if got:
            return got
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def form(parts, boundary="x-b-x"):
    """parts: (name, filename or None, bytes) to a body and its content type."""
    out = b""
    for name, filename, data in parts:
        head = f'form-data; name="{name}"'
        if filename is not None:
            head += f'; filename="{filename}"'
        out += f"--{boundary}\r\nContent-Disposition: {head}\r\n\r\n".encode() + data + b"\r\n"
    return out + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def parse_multipart(body, boundary=b"DAYTONA-FILE-BOUNDARY"):
    """A list of (headers, bytes), trusting each part's Content-Length."""
    parts, at = [], 0
    while True:
        mark = b"--" + boundary
        assert body.startswith(mark, at), body[at:at + 80]
        at += len(mark)
        if body.startswith(b"--", at):
            return parts
        assert body.startswith(b"\r\n", at)
        end = body.index(b"\r\n\r\n", at)
        lines = body[at + 2:end].decode().split("\r\n")
        head = dict((k.lower(), v) for k, v in (line.split(": ", 1) for line in lines))
        size = int(head["content-length"])
        parts.append((head, body[end + 4:end + 4 + size]))
        at = end + 4 + size
        assert body.startswith(b"\r\n", at)
        at += 2


class WebSocket:
    """A client of text and binary messages."""

    def __init__(self, api, path, key=True, protocols=None, timeout=20):
        self.sock = socket.create_connection(("127.0.0.1", api.port), timeout=timeout)
        nonce = base64.b64encode(os.urandom(16)).decode()
        head = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{api.port}", "Upgrade: websocket",
                "Connection: Upgrade", f"Sec-WebSocket-Key: {nonce}", "Sec-WebSocket-Version: 13"]
        if key:
            head.append(f"Authorization: Bearer {api.key}")
        if protocols:
            head.append("Sec-WebSocket-Protocol: " + ", ".join(protocols))
        self.sock.sendall("\r\n".join(head + ["", ""]).encode())
        self.rest = b""
        while b"\r\n\r\n" not in self.rest:
            got = self.sock.recv(4096)
            if not got:
                raise EOFError("no reply to the upgrade")
            self.rest += got
        text, _, self.rest = self.rest.partition(b"\r\n\r\n")
        self.status = int(text.split()[1])
        if self.status == 101:
            want = hashlib.sha1((nonce + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
            assert base64.b64encode(want) in text

    def send(self, data):
        op = 1 if isinstance(data, str) else 2
        data = data.encode() if op == 1 else data
        self._frame(op, data)

    def _frame(self, op, data):
        n = len(data)
        head = bytes([0x80 | op])
        if n < 126:
            head += bytes([0x80 | n])
        elif n < 65536:
            head += bytes([0xfe]) + struct.pack(">H", n)
        else:
            head += bytes([0xff]) + struct.pack(">Q", n)
        self.sock.sendall(head + b"\0\0\0\0" + data)  # a mask of zeros changes nothing

    def _need(self, n):
        while len(self.rest) < n:
            got = self.sock.recv(65536)
            if not got:
                raise EOFError
            self.rest += got
        out, self.rest = self.rest[:n], self.rest[n:]
        return out

    def recv(self):
        """(op, bytes): 1 text, 2 binary, 8 close; pings are answered."""
        while True:
            a, b = self._need(2)
            n = b & 127
            if n == 126:
                n = struct.unpack(">H", self._need(2))[0]
            elif n == 127:
                n = struct.unpack(">Q", self._need(8))[0]
            data = self._need(n)
            if a & 15 == 9:
                self._frame(10, data)
            else:
                return a & 15, data

    def close(self):
        self.sock.close()


class Events:
    """The Socket.IO stream of an organization, as SDKs open it."""

    def __init__(self, api, token=None):
        self.ws = WebSocket(api, "/api/socket.io/?EIO=4&transport=websocket", key=False)
        assert self.ws.status == 101
        op, data = self.ws.recv()
        assert op == 1 and data[:1] == b"0", data
        self.opened = json.loads(data[1:])
        self.ws.send("40" + json.dumps({"token": token or api.key}))
        op, data = self.ws.recv()
        self.accepted = data[:2] == b"40"
        self.reply = json.loads(data[2:])

    def next(self):
        while True:
            op, data = self.ws.recv()
            if data == b"2":
                self.ws.send("3")
            elif data[:2] == b"42":
                return json.loads(data[2:])
            else:
                raise AssertionError((op, data))

    def until(self, name, check=lambda payload: True):
        while True:
            got, payload = self.next()
            if got == name and check(payload):
                return payload
