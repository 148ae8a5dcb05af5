"""A git server in a network namespace behind a daemon's uplink: smart HTTP, with and without keys.

    with GitNet() as net, Daemon(start=False, ...) ...   see tests/api/test_git_remote.py

The namespace holds public addresses, so that sandboxes may reach it, and is wired to the uplink's
namespace only. Folders below net.root: /open for all, /auth behind USER and TOKEN, /deny answers
403, /away redirects to the other address, /slow never answers. Every request leaves a line in
net.requests(): address asked, path, Authorization.
"""
import base64
import http.server
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

WEB, OTHER, HOST, GATE = "93.184.216.34", "8.8.8.8", "93.184.215.10", "93.184.215.1"
USER, TOKEN = "a@b.c", "p/w#?%:"
BACKEND = ("/usr/lib/git-core/git-http-backend", "/usr/libexec/git-core/git-http-backend")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root, log = None, None

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", **head):
        self.send_response(code)
        for k, v in head.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        out = []
        while True:
            n = int(self.rfile.readline().split(b";")[0], 16)
            out.append(self.rfile.read(n))
            self.rfile.readline()
            if n == 0:
                return b"".join(out)

    def do_GET(self):
        self.serve(b"")

    def do_POST(self):
        self.serve(self.body())

    def serve(self, body):
        path, _, query = self.path.partition("?")
        auth = self.headers.get("Authorization", "")
        self.log.write(json.dumps([self.headers.get("Host"), self.path, auth]) + "\n")
        self.log.flush()
        area = path.split("/")[1]
        want = "Basic " + base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
        if area == "slow":
            self.rfile.read(1)
        elif area == "away":
            self.answer(302, Location=f"http://{OTHER}/auth/" + self.path[6:])
        elif area == "deny":
            self.answer(403)
        elif area == "auth" and auth != want:
            self.answer(401, WWW_Authenticate='Basic realm="git"')
        else:
            self.backend(path, query, body)

    def backend(self, path, query, body):
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.root, "PATH_INFO": path,
               "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": self.command, "QUERY_STRING": query,
               "CONTENT_TYPE": self.headers.get("Content-Type", ""), "REMOTE_USER": "x",
               "REMOTE_ADDR": self.client_address[0], "GIT_CONFIG_NOSYSTEM": "1",
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "HOME": self.root,
               "CONTENT_LENGTH": str(len(body)), "GIT_CONFIG_COUNT": "2",
               "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*",
               "GIT_CONFIG_KEY_1": "http.receivepack", "GIT_CONFIG_VALUE_1": "true"}
        program = next(p for p in BACKEND if os.path.exists(p))
        with subprocess.Popen([program], env=env, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as cgi:
            threading.Thread(target=self.feed, args=(cgi.stdin, body), daemon=True).start()
            code, head = 200, []
            while (line := cgi.stdout.readline().strip()):
                name, _, value = line.decode().partition(": ")
                if name == "Status":
                    code = int(value.split()[0])
                else:
                    head.append((name, value))
            self.send_response(code)
            for name, value in head:
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while True:
                piece = cgi.stdout.read1(1 << 20)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                if not piece:
                    break

    @staticmethod
    def feed(pipe, body):
        try:
            pipe.write(body)
            pipe.close()
        except OSError:
            pass


def serve(root, log_path, cert):
    Handler.root, Handler.log = root, open(log_path, "a", encoding="utf-8")
    for port in (80, 443):
        server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler)
        server.daemon_threads = True
        if port == 443:
            ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ctx.load_cert_chain(cert)
            server.socket = ctx.wrap_socket(server.socket, server_side=True,
                                            do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class GitNet:
    """The namespace, its wire to an uplink's, and the server in it."""

    def __init__(self, uplink):
        self.uplink = os.path.basename(uplink)
        self.name = self.uplink + "-git"
        self.root = tempfile.mkdtemp(prefix="caisson-git-")
        self.log = f"{self.root}/.log"
        self.proc = None
        open(self.log, "w", encoding="utf-8").close()
        try:
            self.wire()
            self.start()
        except BaseException:
            self.close()
            raise

    def wire(self):
        up, inet = ("-n", self.uplink), ("-n", self.name)
        ip("netns", "add", self.name)
        ip(*up, "link", "add", "pub0", "type", "veth", "peer", "name", "net0", "netns", self.name)
        ip(*up, "addr", "add", f"{HOST}/24", "dev", "pub0")
        ip(*inet, "addr", "add", f"{GATE}/24", "dev", "net0")
        for address in (WEB, OTHER):
            ip(*inet, "addr", "add", f"{address}/32", "dev", "lo")
        for ns, dev in ((up, "pub0"), (inet, "lo"), (inet, "net0")):
            ip(*ns, "link", "set", dev, "up")
        ip(*up, "route", "add", "default", "via", GATE)
        ip("netns", "exec", self.uplink, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    def start(self):
        cert = f"{self.root}/.cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", f"/CN={WEB}", "-keyout", cert, "-out", cert + ".crt"], check=True,
                       stderr=subprocess.DEVNULL)
        with open(cert, "a", encoding="ascii") as f, open(cert + ".crt", encoding="ascii") as c:
            f.write(c.read())
        self.proc = subprocess.Popen(
            ["ip", "netns", "exec", self.name, sys.executable, __file__, self.root, self.log, cert],
            stdout=subprocess.PIPE, start_new_session=True)
        assert self.proc.stdout.readline() == b"ready\n"

    def url(self, path, scheme="http", host=WEB):
        return f"{scheme}://{host}/{path}"

    def git(self, *argv, cwd=None, **kw):
        env = {"PATH": os.environ["PATH"], "HOME": self.root, "GIT_CONFIG_NOSYSTEM": "1",
               "GIT_AUTHOR_NAME": "S", "GIT_AUTHOR_EMAIL": "s@s", "GIT_COMMITTER_NAME": "S",
               "GIT_COMMITTER_EMAIL": "s@s"}
        return subprocess.run(["git", *argv], cwd=cwd or self.root, env=env, check=True,
                              capture_output=True, text=True, **kw).stdout

    def make(self, path, files=None, branches=()):
        """A bare repository below the root, with one commit for each of files: {name: text}."""
        bare, work = f"{self.root}/{path}", tempfile.mkdtemp(dir=self.root)
        self.git("init", "-q", "-b", "main", work)
        for name, text in (files or {"README": "hello\n"}).items():
            os.makedirs(os.path.dirname(f"{work}/{name}"), exist_ok=True)
            with open(f"{work}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
            self.git("add", "-A", cwd=work)
            self.git("commit", "-q", "-m", f"add {name}", cwd=work)
        for name in branches:
            self.git("branch", name, cwd=work)
        self.git("clone", "-q", "--bare", work, bare)
        shutil.rmtree(work)
        return bare

    def commit(self, path, name, text):
        """One more commit on main of a bare repository."""
        work = tempfile.mkdtemp(dir=self.root)
        self.git("clone", "-q", f"{self.root}/{path}", work)
        with open(f"{work}/{name}", "w", encoding="utf-8") as f:
            f.write(text)
        self.git("add", "-A", cwd=work)
        self.git("commit", "-q", "-m", f"change {name}", cwd=work)
        self.git("push", "-q", "origin", "main", cwd=work)
        shutil.rmtree(work)

    def requests(self):
        with open(self.log, encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def close(self):
        if self.proc:
            os.killpg(self.proc.pid, signal.SIGKILL)
            self.proc.wait()
            self.proc.stdout.close()
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        shutil.rmtree(self.root, ignore_errors=True)


if __name__ == "__main__":
    socket.setdefaulttimeout(120)
    serve(*sys.argv[1:])
