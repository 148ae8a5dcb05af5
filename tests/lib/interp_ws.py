"""Running code in a sandbox's interpreter over its WebSocket."""
import json
import struct

from resthelp import WebSocket


class Run:
    """One execution, under way once made."""

    def __init__(self, api, box, code, context=None, **fields):
        self.ws = WebSocket(api, f"/toolbox/{box}/process/interpreter/execute", timeout=30)
        assert self.ws.status == 101, self.ws.status
        if context:
            fields["contextId"] = context
        self.frames, self.code, self.reason = [], None, None
        self.ws.send(json.dumps({"code": code, **fields}) if isinstance(code, str) else code)

    def next(self):
        """The next frame, or None at the close."""
        op, data = self.ws.recv()
        if op == 8:
            self.code = struct.unpack(">H", data[:2])[0]
            self.reason = data[2:].decode()
            self.ws._frame(8, data)
            self.ws.close()
            return None
        assert op == 1, (op, data)
        self.frames.append(json.loads(data))
        return self.frames[-1]

    def until(self, text):
        while text not in self.stdout:
            assert self.next(), (text, self.frames, self.code, self.reason)
        return self

    def wait(self):
        while self.next():
            continue
        return self

    def _text(self, kind):
        return "".join(f["text"] for f in self.frames if f["type"] == kind)

    @property
    def stdout(self):
        return self._text("stdout")

    @property
    def stderr(self):
        return self._text("stderr")

    @property
    def error(self):
        return next((f for f in self.frames if f["type"] == "error"), None)

    @property
    def control(self):
        return next((f["text"] for f in self.frames if f["type"] == "control"), None)


def run(api, box, code, context=None, **fields):
    return Run(api, box, code, context, **fields).wait()


def says(api, box, code, out, context=None, **fields):
    """The code ends well and prints this."""
    got = run(api, box, code, context, **fields)
    assert (got.code, got.control, got.error, got.stdout) == (1000, "completed", None, out), (
        got.frames, got.code, got.reason)
