"""The interpreter's runner under this machine's python3, spoken to as the daemon does it."""
import base64
import os
import select
import signal
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNNER = f"{TOP}/share/interpreter/runner.py"
MARK = b"\0caisson-interpreter "
BOOT = """import os,sys
b=b'';n=int(sys.argv[1])
while len(b)<n:b+=os.read(0,n-len(b))or sys.exit(1)
exec(compile(b,'caisson-interpreter','exec'))"""


class Lost(Exception):
    pass


class Runner:
    def __init__(self, python=sys.executable, cwd=None, env=None):
        with open(RUNNER, "rb") as f:
            text = f.read()
        self.proc = subprocess.Popen([python, "-c", BOOT, str(len(text))], cwd=cwd,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
                                     env={**os.environ, **(env or {})}, start_new_session=True)
        self.out, self.count, self.buf = self.proc.stdout.fileno(), 0, bytearray()
        self.told = 0.0
        os.set_blocking(self.out, False)
        self.write(text)
        self.state = self.attach()

    def write(self, data):
        while data:
            data = data[os.write(self.proc.stdin.fileno(), data):]

    def more(self, seconds):
        if time.monotonic() > self.told + 5:
            self.told = time.monotonic()
            self.write(b"alive\n")
        if not select.select([self.out], [], [], seconds)[0]:
            raise TimeoutError
        data = os.read(self.out, 1 << 20)
        if not data:
            raise Lost
        self.buf += data

    def nonce(self):
        self.count += 1
        return b"n%d" % self.count

    def attach(self, seconds=10):
        """As a daemon that knows nothing of the stream; returns idle or busy."""
        nonce = self.nonce()
        self.write(b"\nattach " + nonce + b"\n")
        mark = MARK + nonce + b"\n"
        while mark not in self.buf:
            self.more(seconds)
        del self.buf[:self.buf.index(mark) + len(mark)]
        kind, payload = self.frame(seconds)
        assert kind == b"a" and payload.split()[0] == nonce, (kind, payload)
        return payload.split()[1].decode()

    def frame(self, seconds=20):
        end = time.monotonic() + seconds
        while (at := self.buf.find(b"\n")) < 0:
            self.more(end - time.monotonic())
        kind, size = bytes(self.buf[:1]), int(self.buf[1:at])
        while len(self.buf) < at + 1 + size:
            self.more(end - time.monotonic())
        payload = bytes(self.buf[at + 1:at + 1 + size])
        del self.buf[:at + 1 + size]
        return kind, payload

    def send_run(self, code, timeout=0.0, env=()):
        nonce = self.nonce()
        data = base64.b64encode(b"\0".join([code.encode("utf-8", "surrogatepass"),
                                            *(e.encode() for e in env)]))
        self.write(b"run %s %d %d %s\n" % (nonce, int(timeout * 1000), len(data), data))
        return nonce

    def finish(self, nonce, seconds=20, seen=None):
        """Frames up to the end of the run: out, err, error, status, mixed."""
        got = {"out": bytearray(), "err": bytearray(), "error": None, "status": None, "mixed": [], "gaps": []}
        while True:
            kind, payload = self.frame(seconds)
            if kind in (b"o", b"e"):
                got["out" if kind == b"o" else "err"] += payload
                got["mixed"].append((kind.decode(), payload))
                if seen:
                    seen(got)
            elif kind == b"x":
                got["error"] = tuple(p.decode() for p in payload.split(b"\0"))
            elif kind == b"g":
                got["gaps"].append(payload.decode())
            elif kind == b"z":
                got["status"] = payload.decode()
                return got
            elif kind == b"d":
                who, status = payload.split()
                assert who == nonce, (who, nonce)
                got["status"] = status.decode()
                return got
            else:
                raise AssertionError((kind, payload))

    def run(self, code, timeout=0.0, env=(), seconds=20, seen=None):
        return self.finish(self.send_run(code, timeout, env), seconds, seen)

    def interrupt(self):
        self.proc.send_signal(signal.SIGINT)

    def close(self):
        for f in (self.proc.stdin, self.proc.stdout):
            f.close()
        try:
            self.proc.wait(5)
        finally:
            if self.proc.poll() is None:
                self.proc.kill()
                self.proc.wait()
