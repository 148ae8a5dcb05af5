"""The command line's view of what runs and lies in a sandbox: terminals, ports, sessions, git."""
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402


@pytest.fixture(scope="module")
def d():
    with cli_daemon.Daemon(image=cli_daemon.DEFAULT) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(d):
    d.cli("create", "--name", "tools", "--auto-stop", "0")
    yield "tools"
    d.cli("delete", "-f", "tools")


def text(out):
    return out.stdout.decode()


def popen(d, *argv, **kw):
    return subprocess.Popen([f"{cli_daemon.BUILD}/caisson", *argv], env=d.cli_env(), **kw)


def fails(d, code, *argv, **kw):
    out = d.cli(*argv, check=False, **kw)
    assert out.returncode == code, out
    lines = out.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("caisson: "), out
    return lines[0]


def wait_for(fn, seconds=20):
    deadline = time.monotonic() + seconds
    while not fn():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


# ---- exec -it ----

class Terminal:
    """Our end of a terminal that a `caisson exec -it` runs on."""

    def __init__(self, d, *argv, rows=24, cols=80):
        self.master, self.slave = pty.openpty()
        self.size(rows, cols)
        self.before = termios.tcgetattr(self.slave)
        self.seen = b""
        self.proc = popen(d, "exec", "-it", *argv, stdin=self.slave, stdout=self.slave,
                          stderr=self.slave, start_new_session=True,
                          preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def size(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def send(self, data):
        os.write(self.master, data)

    def until(self, want, seconds=15):
        """What came up to and with want; the rest stays for the next call."""
        deadline = time.monotonic() + seconds
        while want not in self.seen:
            ready = select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]
            assert ready, self.seen
            self.seen += os.read(self.master, 4096)
        at = self.seen.index(want) + len(want)
        got, self.seen = self.seen[:at], self.seen[at:]
        return got

    def end(self):
        code = self.proc.wait(15)
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        assert after == self.before, "the terminal was left changed"
        return code


def test_terminal_is_raw_and_given_back(d, box):
    t = Terminal(d, box, "bash", "--norc", rows=31, cols=97)
    t.send(b"PS1=; stty size; echo o''n\n")
    assert b"31 97" in t.until(b"on\r\n")
    # Keys that a cooked terminal would keep for itself.
    t.send(b"echo g''o; cat -v\n")
    t.until(b"go\r\n")
    t.send(b"\x16\x03\x16\x1a\x16\x1c\x16\x11 keys\n")
    t.until(b"^C^Z^\\^Q keys")
    t.send(b"\x04")
    t.send(b"exit 6\n")
    assert t.end() == 6


def test_interrupt_key_reaches_the_program(d, box):
    t = Terminal(d, box, "bash", "--norc")
    t.send(b"PS1=; sleep 1000; echo code=$?\n")
    wait_for(lambda: text(d.cli("exec", box, "pgrep", "-fc", "^sleep 1000", check=False)) == "1\n")
    t.send(b"\x03")
    # An interrupted list ends; the shell is there for the next line.
    t.send(b"echo st''ill\n")
    t.until(b"still\r\n")
    t.send(b"exit\n")
    assert t.end() in (0, 130)


def test_terminal_follows_the_window(d, box):
    # No interactive shell: one that edits its line may keep a second signal until the next key.
    t = Terminal(d, box, "sh", "-c", "trap 'stty size' WINCH; trap 'exit 0' INT; echo on; "
                                     "while :; do sleep 0.05; done")
    t.until(b"on\r\n")
    t.size(20, 60)
    t.until(b"20 60")
    t.size(50, 132)
    t.until(b"50 132")
    t.send(b"\x03")
    assert t.end() == 0


def test_terminal_survives_large_output_and_unicode(d, box):
    t = Terminal(d, box, "sh", "-c", "seq 1 20000; echo 日本 ☕; exit 3")
    got = t.until("日本 ☕\r\n".encode(), 30)
    assert got.replace(b"\r\n", b"\n") == "".join(
        f"{i}\n" for i in range(1, 20001)).encode() + "日本 ☕\n".encode()
    assert t.end() == 3


def test_terminal_is_given_back_when_the_daemon_goes(d, box):
    t = Terminal(d, box, "bash", "--norc")
    t.send(b"PS1=; echo o''n\n")
    t.until(b"on\r\n")
    d.kill("api")
    assert t.end() == 125
    d.wait_ready()


# ---- cp ----

def test_copy_tells_how_far_it_is_on_a_terminal_only(d, box):
    master, slave = pty.openpty()
    p = popen(d, "cp", "-", f"{box}:/tmp/fed", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
              stderr=slave)
    seen, sent, deadline = b"", 0, time.monotonic() + 20
    while b"iB/s" not in seen:
        assert time.monotonic() < deadline, seen
        p.stdin.write(b"x" * 100000)
        sent += 100000
        if select.select([master], [], [], 0.05)[0]:
            seen += os.read(master, 4096)
    p.stdin.close()
    assert p.wait(20) == 0 and b"/tmp/fed" in seen
    # The line is taken away again.
    assert os.read(master, 4096).endswith(b"\r\x1b[K")
    os.close(master)
    os.close(slave)
    assert int(text(d.cli("exec", box, "stat", "-c", "%s", "/tmp/fed"))) == sent
    assert d.cli("cp", f"{box}:/tmp/fed", "-").stderr == b""


def test_copy_writes_into_a_special_file_and_never_replaces_one(d, box, tmp_path):
    d.cli("exec", box, "sh", "-c", "mkdir -p /tmp/sp; echo hi > /tmp/sp/pipe")
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE)
    d.cli("cp", f"{box}:/tmp/sp/pipe", str(tmp_path / "pipe"))
    assert reader.communicate(timeout=20)[0] == b"hi\n"
    (tmp_path / "sp").mkdir()
    os.mkfifo(tmp_path / "sp" / "pipe")
    assert "special" in fails(d, 1, "cp", f"{box}:/tmp/sp", str(tmp_path))
    assert (tmp_path / "sp" / "pipe").is_fifo()


# ---- ports ----

def test_ports_are_listed(d, box):
    listen = ("import socket,time; s=[socket.socket() for _ in 'ab']; s[0].bind(('127.0.0.1', 4001)); "
              "s[1].bind(('0.0.0.0', 4002)); [x.listen() for x in s]; print('on', flush=True); time.sleep(600)")
    p = popen(d, "exec", box, "python3", "-c", listen, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert p.stdout.readline() == b"on\n"
        wait_for(lambda: text(d.cli("ports", box)).split() == ["4001", "4002"])
        assert json.loads(text(d.cli("ports", box, "--json"))) == [4001, 4002]
    finally:
        p.kill()
        p.wait(10)
    fails(d, 1, "ports", "nowhere")
    fails(d, 2, "ports")


# ---- sessions ----

@pytest.fixture(scope="module")
def session(d, box):
    name = text(d.cli("session", "create", box)).strip()
    assert name.startswith("session-")
    yield name
    d.cli("session", "delete", box, name)


def test_session_keeps_its_state(d, box, session):
    d.cli("session", "exec", box, session, "cd /tmp; export A='x  y'")
    assert text(d.cli("session", "exec", box, session, "--", 'echo "$A"; pwd')) == "x  y\n/tmp\n"
    out = d.cli("session", "exec", box, session, "echo out; echo err >&2; (exit 7)", check=False)
    assert (out.returncode, out.stdout, out.stderr) == (7, b"out\n", b"err\n")
    assert text(d.cli("session", "exec", box, session, "cat; echo end")) == "end\n"


def test_session_is_listed(d, box, session):
    d.cli("session", "exec", box, session, "true # in the list")
    assert session in text(d.cli("session", "list", box))
    assert "true # in the list" in text(d.cli("session", "list", box, session))
    one = json.loads(text(d.cli("session", "list", "-j", box, session)))
    assert one["sessionId"] == session and one["commands"][-1]["exitCode"] == 0


def test_session_output_comes_as_it_is_made(d, box, session):
    p = popen(d, "session", "exec", "-f", box, session,
              "echo one; read x; echo got $x; echo err >&2; (exit 5)",
              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"one\n"
    last = json.loads(text(d.cli("session", "list", "-j", box, session)))["commands"][-1]
    assert "exitCode" not in last
    d.cli("session", "input", box, session, last["id"], "two", "words")
    out, err = p.communicate(timeout=20)
    assert b"got two words\n" in out and err == b"err\n"
    assert p.returncode == 5


def test_session_command_runs_detached_and_is_followed(d, box, session):
    cmd = text(d.cli("session", "exec", "-d", box, session,
                     "for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.2; done; read a; read b; echo $b$a"))
    cmd = cmd.strip()
    assert re.fullmatch(r"[0-9a-f-]{36}", cmd)
    p = popen(d, "session", "logs", "-f", box, session, cmd, stdin=subprocess.DEVNULL,
              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"1\n"
    d.cli("session", "input", box, session, cmd, input=b"x\ny\n")
    out, err = p.communicate(timeout=20)
    assert out.endswith(b"yx\n") and err == b"e1\ne2\ne3\n" and p.returncode == 0
    again = d.cli("session", "logs", box, session, cmd)
    assert (again.stdout, again.stderr) == (b"1\n" + out, err)
    fails(d, 1, "session", "input", box, session, cmd, "late")


def test_session_reader_that_goes_away_is_no_error(d, box, session):
    out = subprocess.run(f"{cli_daemon.BUILD}/caisson session exec -f {box} {session} "
                         "'seq 1 200000' | head -n 2", shell=True, env=d.cli_env(),
                         capture_output=True, check=False, timeout=30)
    assert (out.stdout, out.stderr) == (b"1\n2\n", b"")


def test_session_faults_are_one_line(d, box, session):
    fails(d, 1, "session", "create", box, session)
    fails(d, 125, "session", "exec", box, "none", "true")
    fails(d, 1, "session", "logs", box, session, "none")
    fails(d, 1, "session", "delete", box, "none")
    fails(d, 2, "session", "exec", box)
    other = text(d.cli("session", "create", box, "ends")).strip()
    assert d.cli("session", "exec", box, other, "exit 3", check=False).returncode == 3
    assert "ended" in fails(d, 125, "session", "exec", box, other, "true")
    d.cli("session", "delete", box, other)


# ---- execs that run on ----

def test_detached_exec_runs_on_and_is_followed(d, box):
    script = "for i in 1 2 3; do echo $i; echo e$i >&2; sleep 0.2; done; exit 4"
    ident = text(d.cli("exec", "-d", box, "sh", "-c", script)).strip()
    p = popen(d, "logs", "-f", box, ident, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
              stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"1\n"
    row = next(x for x in text(d.cli("ps", box)).splitlines() if ident in x)
    assert "running" in row
    assert p.communicate(timeout=20) == (b"2\n3\n", b"e1\ne2\ne3\n") and p.returncode == 0
    listed = json.loads(text(d.cli("ps", "-j", box)))
    assert [(x["state"], x["exitCode"]) for x in listed if x["id"] == ident] == [("ended", 4)]


def test_logs_are_byte_exact_and_tell_what_is_gone(d, box):
    ident = text(d.cli("exec", "-d", "-s", box, "head -c 3000000 /dev/urandom | tee /tmp/bytes")).strip()
    out = d.cli("logs", "-f", box, ident)
    assert out.stdout == d.cli("cp", f"{box}:/tmp/bytes", "-").stdout and len(out.stdout) == 3000000
    ident = text(d.cli("exec", "-d", box, "seq", "2000000")).strip()
    wait_for(lambda: "running" not in text(d.cli("ps", box)))
    out = d.cli("logs", box, ident)
    total = sum(len(str(i)) + 1 for i in range(1, 2000001))
    gone = int(re.match(rb"caisson: logs: (\d+) bytes of stdout are not kept", out.stderr).group(1))
    assert gone + len(out.stdout) == total and out.stdout.endswith(b"\n1999999\n2000000\n")
    fails(d, 1, "logs", box, "none")


def test_detached_exec_is_killed_with_its_children(d, box):
    ident = text(d.cli("exec", "-d", "-s", box, "setsid sleep 4242 & sleep 4242")).strip()
    alive = lambda: text(d.cli("exec", box, "pgrep", "-fc", "^sleep 4242", check=False))  # noqa: E731
    wait_for(lambda: alive() == "2\n")
    d.cli("kill", box, ident)
    assert alive() == "0\n"
    ident = text(d.cli("exec", "-d", box, "sleep", "4243")).strip()
    d.cli("kill", "--signal", "SIGTERM", box, ident)
    wait_for(lambda: "running" not in text(d.cli("ps", box)))
    assert next(x for x in json.loads(text(d.cli("ps", "-j", box))) if x["id"] == ident)["cause"] == "signal"
    fails(d, 1, "kill", box, "none")


def test_logs_follow_what_happens(d):
    d.cli("create", "--name", "life", "--auto-stop", "0")
    p = popen(d, "logs", "-f", "life", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    seen = [p.stdout.readline()]
    assert b"creat" in seen[0] or b"start" in seen[0]
    d.cli("stop", "life")
    while b"stopped" not in seen[-1]:
        seen.append(p.stdout.readline())
        assert seen[-1], seen
    d.cli("delete", "life")
    assert p.wait(20) == 0


# ---- watch ----

def test_changes_are_printed_as_they_happen(d, box):
    d.cli("exec", box, "mkdir", "-p", "/tmp/w/a")
    p = popen(d, "watch", "-r", box, "/tmp/w", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
              stderr=subprocess.PIPE)
    assert p.stderr.readline() == b"caisson: watch: ready\n"
    d.cli("exec", box, "sh", "-c", "echo x > /tmp/w/a/f; mv /tmp/w/a/f /tmp/w/g; rm /tmp/w/g; rm -r /tmp/w")
    out = p.communicate(timeout=20)[0].decode()
    assert re.search(r"^create +/tmp/w/a/f$", out, re.M) and "/tmp/w/a/f -> /tmp/w/g" in out
    assert re.search(r"^remove +/tmp/w/g$", out, re.M)
    assert p.returncode == 0
    fails(d, 1, "watch", box, "/no/such/place")


# ---- git ----

def test_git_from_init_to_push(d, box):
    git = lambda *argv, **kw: d.cli("git", *argv, **kw)  # noqa: E731
    run = lambda *argv: text(d.cli("exec", box, *argv))  # noqa: E731
    git("init", "--bare", "-b", "main", box, "/home/daytona/origin.git")
    git("clone", box, "/home/daytona/origin.git", "work")
    run("sh", "-c", "cd work && git checkout -qB main && echo hi > a.txt && mkdir 'b c' && echo x > 'b c/ü'")
    status = text(git("status", "-C", "work", box))
    assert status.startswith("on main") and "a.txt" in status and "Untracked" in status
    git("add", "-C", "work", box, "a.txt", "b c/ü")
    fails(d, 2, "git", "commit", "-C", "work", box)
    commit = text(git("commit", "-C", "work", box, "-m", "first", "--author", "Ada <ada@example.com>")).strip()
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    git("push", "-C", "work", "--remote", "origin", "-b", "main", "--set-upstream", box)
    assert json.loads(text(git("status", "-j", "-C", "work", box)))["ahead"] == 0
    log = text(git("log", "-C", "work", box))
    assert commit[:12] in log and "first" in log and "Ada" in log
    git("branch", "-C", "work", box, "feature")
    git("checkout", "-C", "work", box, "feature")
    assert "* feature" in text(git("branch", "-C", "work", box))
    git("checkout", "-C", "work", box, "main")
    git("branch", "-d", "-C", "work", box, "feature")
    assert text(git("branch", "-C", "work", box)).split() == ["*", "main"]
    run("git", "-C", "work", "config", "user.name", "Local")
    run("git", "-C", "work", "config", "user.email", "l@example.com")
    git("commit", "-C", "work", box, "-m", "empty", "--allow-empty")
    assert "Local" in text(git("log", "-C", "work", box))
    git("clone", "--depth", "1", box, "file:///home/daytona/origin.git")
    assert run("git", "-C", "origin", "rev-list", "--count", "HEAD") == "1\n"
    git("pull", "-C", "origin", box)


def test_git_faults_are_one_line(d, box):
    fails(d, 1, "git", "status", "-C", "/tmp", box)
    fails(d, 1, "git", "clone", box, "http://127.0.0.1:9/x.git")
    fails(d, 2, "git", "branch", "-d", box)
    fails(d, 2, "git", "commit", box, "-m", "x", "--author", "nobody")
