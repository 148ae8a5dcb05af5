"""A daemon of its own for a test: data directory, uplink namespace, port, and an end without traces.

    with Daemon(image=BUSYBOX) as d:
        sb = d.post("/sandbox", {"name": "x"})
        d.cli("exec", sb["id"], "true")

The uplink is a network namespace made here, so nothing a sandbox sends can leave the machine.
"""
import glob
import http.client
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("CAISSON_BUILD", f"{TOP}/build")
BUSYBOX = f"{TOP}/build/image/busybox.tar"
DEFAULT = f"{TOP}/build/image/default.tar.zst"
READY_S = 180
counter = itertools.count()


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status, self.body = status, body


class Uplink:
    """A network namespace that plays the internet."""

    def __init__(self):
        self.name = f"caisson-t{os.getpid()}-{next(counter)}"
        self.path = f"/run/netns/{self.name}"
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "up"], check=True)

    def close(self):
        subprocess.run(["ip", "netns", "del", self.name], check=False)


class Daemon:
    def __init__(self, image=BUSYBOX, args=(), env=None, on_exit="destroy", start=True):
        self.uplink_ns = Uplink()
        self.uplink = self.uplink_ns.path
        self.base = tempfile.mkdtemp(prefix="caisson-t-")
        os.chmod(self.base, 0o711)
        self.data_dir = f"{self.base}/data"
        self.image, self.args, self.env, self.on_exit = image, list(args), env or {}, on_exit
        self.proc, self.port, self.key, self.log = None, None, None, f"{self.base}/log"
        if start:
            try:
                self.start()
            except BaseException:
                self.close()
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- life ----

    def start(self, wait=True, env=None):
        argv = [f"{BUILD}/caissond", "--data-dir", self.data_dir, "--listen",
                f"127.0.0.1:{self.port or free_port()}",
                *(["--default-image", self.image] if self.image else []),
                "--uplink-netns", self.uplink, "--on-exit", self.on_exit,
                "--config", "/dev/null", *self.args]
        self.port = int(argv[4].rsplit(":", 1)[1])
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         env={**os.environ, **self.env, **(env or {})},
                                         start_new_session=True)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=READY_S):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.proc.poll() is not None:
                raise RuntimeError(f"caissond ended with {self.proc.returncode}: {self.tail()}")
            try:
                if self.request("GET", "/health")[0] == 200:
                    break
            except OSError:
                pass
            time.sleep(0.02)
        else:
            raise RuntimeError(f"caissond is not ready after {seconds} s: {self.tail()}")
        with open(f"{self.data_dir}/admin.key", encoding="ascii") as f:
            self.key = f.read().strip()

    def tail(self, lines=15):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "\n".join(f.read().splitlines()[-lines:])

    def stop(self, seconds=60):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
            self.proc.wait(seconds)

    def kill(self, *roles):
        """kill -9 of "runner", "api" or both. The runner is our child, so it is reaped here."""
        pids = self.pids()
        for role in roles:
            os.kill(pids[role], signal.SIGKILL)
        if "runner" in roles:
            self.proc.wait(30)

    def close(self):
        """End everything, whatever state a test left it in."""
        try:
            self.stop()
            if self.on_exit == "keep" and os.path.exists(f"{self.data_dir}/instance"):
                # What was kept, or survived a kill, ends with a daemon that destroys on its way out.
                self.on_exit, self.env = "destroy", {}
                self.start(env={"CAISSON_CRASH_AT": ""})
                self.stop()
        except (subprocess.TimeoutExpired, RuntimeError, OSError) as e:
            print(f"daemon: {e}")
        finally:
            if self.proc and self.proc.poll() is None:
                self.proc.kill()
                self.proc.wait(30)
            self._tear_down()

    def _tear_down(self):
        for line in open("/proc/self/mountinfo", encoding="utf-8"):
            place = line.split()[4]
            if place.startswith(self.base + "/"):
                subprocess.run(["umount", "-l", place], check=False)
        shutil.rmtree(self.base, ignore_errors=True)
        self.uplink_ns.close()

    # ---- what it is ----

    @property
    def instance(self):
        with open(f"{self.data_dir}/instance", encoding="ascii") as f:
            return f.read().strip()

    @property
    def run_dir(self):
        return f"/run/caisson/{self.instance}"

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/api"

    def pids(self):
        """Pids of the runner and of the newest api and net processes below it."""
        found = {"runner": self.proc.pid}
        for p in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(p, encoding="utf-8", errors="replace") as f:
                    fields = f.read().rsplit(")", 1)[1].split()
                with open(p[:-4] + "cmdline", encoding="utf-8", errors="replace") as f:
                    words = f.read().split("\0")
            except OSError:
                continue
            if int(fields[1]) == self.proc.pid and fields[0] != "Z":
                for role in ("api", "net"):
                    if role in words[1:3]:
                        found[role] = int(p.split("/")[2])
        return found

    # ---- REST ----

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, method, path, body=None, headers=None, conn=None, raw=False):
        own = conn is None
        conn = conn or self.connect()
        head = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            head.setdefault("Content-Type", "application/json")
        try:
            conn.request(method, path if path.startswith("/toolbox") else f"/api{path}", data, head)
            reply = conn.getresponse()
            text = reply.read()
        finally:
            if own:
                conn.close()
        if raw:
            return reply.status, text
        try:
            return reply.status, json.loads(text) if text else None
        except ValueError:
            return reply.status, text.decode("utf-8", "replace")

    def call(self, method, path, body=None, **kw):
        status, reply = self.request(method, path, body, **kw)
        if status >= 300:
            raise ApiError(status, reply)
        return reply

    def get(self, path, **kw):
        return self.call("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.call("POST", path, body if body is not None else {}, **kw)

    def delete(self, path, **kw):
        return self.call("DELETE", path, **kw)

    def create(self, **fields):
        return self.post("/sandbox", fields)

    def exec(self, sandbox, command, **fields):
        return self.post(f"/toolbox/{sandbox}/process/execute", {"command": command, **fields})

    # ---- command line ----

    def cli_env(self):
        return {**os.environ, "CAISSON_URL": self.url, "CAISSON_API_KEY": self.key}

    def cli(self, *argv, check=True, timeout=60, **kw):
        kw.setdefault("stdin", None if "input" in kw else subprocess.DEVNULL)
        if "input" in kw:
            kw.pop("stdin")
        out = subprocess.run([f"{BUILD}/caisson", *argv], env=self.cli_env(), timeout=timeout,
                             capture_output=True, check=False, **kw)
        if check and out.returncode != 0:
            raise AssertionError(f"caisson {' '.join(argv)}: {out.returncode}: "
                                 f"{out.stderr.decode('utf-8', 'replace')}")
        return out


def free_port():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
