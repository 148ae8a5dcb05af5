"""What the tests of sessions, terminals and execs share."""
import contextlib
import json
import socket
import struct
import time
import uuid

from resthelp import WebSocket, wait_for

SDK = {"X-Daytona-SDK-Version": "0.218.0"}


class Session:
    """A session of its own in a sandbox, by the toolbox."""

    def __init__(self, api, box, name=None):
        self.api, self.box, self.name = api, box, name or f"s-{uuid.uuid4()}"
        self.url = f"/toolbox/{box}/process/session/{self.name}"
        api.post(f"/toolbox/{box}/process/session", {"sessionId": self.name})

    def run(self, command, **fields):
        return self.api.post(f"{self.url}/exec", {"command": command, **fields})

    def out(self, command, **fields):
        return self.run(command, **fields)["stdout"]

    def start(self, command, **fields):
        return self.run(command, runAsync=True, **fields)["cmdId"]

    def command(self, cmd):
        return self.api.get(f"{self.url}/command/{cmd}")

    def logs(self, cmd, **kw):
        return self.api.get(f"{self.url}/command/{cmd}/logs", headers=SDK, **kw)

    def input(self, cmd, data):
        return self.api.request("POST", f"{self.url}/command/{cmd}/input", {"data": data})

    def follow(self, cmd, follow="true"):
        return WebSocket(self.api, f"{self.url}/command/{cmd}/logs?follow={follow}")

    def wait(self, cmd, seconds=20):
        return wait_for(lambda: self.command(cmd) if "exitCode" in self.command(cmd) else None,
                        seconds)["exitCode"]

    def delete(self):
        return self.api.request("DELETE", self.url)


def demux(data):
    """Bytes with markers to those of both streams."""
    out, at = {1: b"", 2: b"", 0: b""}, 0
    parts, stream = [], 0
    while at < len(data):
        nexts = [p for p in (data.find(b"\1\1\1", at), data.find(b"\2\2\2", at)) if p >= 0]
        end = min(nexts) if nexts else len(data)
        parts.append((stream, data[at:end]))
        if end < len(data):
            stream = data[end]
        at = end + 3 if nexts else end
    for stream, part in parts:
        out[stream] += part
    assert not out[0], out[0][:80]
    return out[1], out[2]


def drain(ws):
    """All binary messages of a WebSocket joined, and its close code and reason."""
    data = b""
    while True:
        op, got = ws.recv()
        if op == 8:
            return data, struct.unpack(">H", got[:2])[0], got[2:].decode()
        data += got


class Terminal:
    """A client at a terminal: control messages, output, the close."""

    def __init__(self, api, path, protocols=("X-Daytona-Pty-Exit-Control",), timeout=20):
        self.ws = WebSocket(api, path, protocols=list(protocols), timeout=timeout)
        self.out, self.control, self.closed = bytearray(), [], None
        if self.ws.status == 101:
            self.first = self.step()

    def step(self):
        op, data = self.ws.recv()
        if op == 1:
            self.control.append(json.loads(data))
            return self.control[-1]
        if op == 8:
            self.closed = (struct.unpack(">H", data[:2])[0], data[2:].decode())
        else:
            self.out += data
        return None

    def type(self, text):
        self.ws.send(text.encode() if isinstance(text, str) else text)

    def until(self, text, seconds=20):
        """Output has this text by now: what came up to it."""
        text, end = text.encode() if isinstance(text, str) else text, time.monotonic() + seconds
        at = 0
        while self.out.find(text, at) < 0:
            at = max(0, len(self.out) - len(text))
            assert self.closed is None and time.monotonic() < end, bytes(self.out[-500:])
            self.step()
        return bytes(self.out)

    def end(self):
        """To the close: its code, and the exit as told."""
        while self.closed is None:
            self.step()
        exits = [c for c in self.control if c["status"] == "exited"]
        return self.closed[0], exits[-1] if exits else None

    def close(self):
        self.ws.close()


@contextlib.contextmanager
def raw_request(api, method, path, body=b"", headers=()):
    """A request whose reply nobody reads, as a socket."""
    sock = socket.create_connection(("127.0.0.1", api.port), timeout=20)
    head = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {api.key}",
            "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    try:
        sock.sendall("\r\n".join(head + ["", ""]).encode() + body)
        yield sock
    finally:
        sock.close()


def ps(api, box):
    return api.exec(box, "ps -eo pid,stat,args 2>/dev/null || ps -o pid,stat,args")["result"]


def native(box, rest=""):
    return f"/caisson/sandboxes/{box}{rest}"


def sse(text):
    """Events of a text/event-stream."""
    events = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        if not lines:
            continue
        fields = dict(line.split(": ", 1) for line in lines)
        event = json.loads(fields["data"])
        assert event["type"] == fields["event"], block
        events.append(event)
    return events
