"""Terminals through the Python SDK: create, connect, size, input, kill, exit codes."""
import asyncio
import threading
import time

import daytona as sdk
from daytona import CreateSandboxFromSnapshotParams, Daytona, PtySize

from check import check, equal, finish, raises, raises_async, section, wait_for


class Reader:
    """Collects what a terminal says, in a thread of its own."""

    def __init__(self, handle):
        self.handle, self.data, self.result = handle, b"", None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        self.result = self.handle.wait(on_data=self._take)

    def _take(self, chunk):
        self.data += chunk

    def until(self, what, seconds=20):
        want = what.encode()
        return wait_for(f"terminal says {what!r}", lambda: want in self.data, seconds)

    def end(self, seconds=20):
        self.thread.join(seconds)
        check("terminal: its end came", not self.thread.is_alive(), self.data[-200:])
        return self.result


def talk(sb):
    h = sb.process.create_pty_session(id="interactive", pty_size=PtySize(cols=120, rows=30))
    check("connected", h.is_connected())
    equal("session id", h.session_id, "interactive")
    r = Reader(h)
    h.send_input('printf "Your name: "; read name; printf "Hello, %s\\n" "$name"\n')
    r.until("Your name: ")
    h.send_input(b"Alice\n")
    r.until("Hello, Alice")
    info = h.resize(PtySize(cols=80, rows=25))
    equal("resized", (info.cols, info.rows, info.id), (80, 25, "interactive"))
    h.send_input("stty size; echo T=$TERM\n")
    r.until("25 80")
    r.until("T=xterm-256color")
    h.send_input("pwd\n")
    r.until("/home/daytona")
    h.send_input("exit\n")
    got = r.end()
    equal("exit 0", (got.exit_code, h.exit_code), (0, 0))
    check("not connected any more", not h.is_connected())
    raises("record is gone", sdk.DaytonaNotFoundError,
           lambda: sb.process.get_pty_session_info("interactive"), status=404)


def options(sb):
    h = sb.process.create_pty_session(id="opts", cwd="/tmp", envs={"A": "1 2", "U": "\u65e5\u672c"},
                                      pty_size=PtySize(cols=101, rows=33))
    r = Reader(h)
    info = sb.process.get_pty_session_info("opts")
    equal("info", (info.id, info.active, info.cols, info.rows, info.cwd),
          ("opts", True, 101, 33, "/tmp"))
    equal("info: envs", info.envs.get("A"), "1 2")
    check("listed", "opts" in [s.id for s in sb.process.list_pty_sessions()])
    h.send_input('echo "<$A|$U|$PWD>"; stty size\n')
    r.until("<1 2|\u65e5\u672c|/tmp>")
    r.until("33 101")
    raises("taken id", sdk.DaytonaConflictError, lambda: sb.process.create_pty_session(id="opts"))
    for cols, rows in ((0, 10), (10, 0), (1001, 10), (10, 1001)):
        # The client refuses these by itself.
        raises(f"size {cols}x{rows}", sdk.DaytonaError, lambda c=cols, r=rows:
               sb.process.resize_pty_session("opts", PtySize(cols=c, rows=r)))
    h.send_input("exit 7\n")
    got = r.end()
    equal("exit 7", got.exit_code, 7)
    raises("resize of none", sdk.DaytonaError, lambda:
           sb.process.resize_pty_session("opts", PtySize(cols=10, rows=10)))
    raises("connect to none", sdk.DaytonaError, lambda: sb.process.connect_pty_session("nobody"))


def kill(sb):
    h = sb.process.create_pty_session(id="killed")
    r = Reader(h)
    h.send_input("while true; do echo running; sleep 0.2; done\n")
    r.until("running\r\n")
    h.kill()
    got = r.end()
    equal("kill: code", got.exit_code, 137)
    equal("kill: not listed", [s.id for s in sb.process.list_pty_sessions()], [])
    e = raises("kill of none", sdk.DaytonaError, lambda: sb.process.kill_pty_session("killed"))
    check("kill of none: told", e and e.status_code in (404, 410), e)


def interrupt(sb):
    h = sb.process.create_pty_session(id="intr")
    r = Reader(h)
    h.send_input("sleep 1000; echo code=$?\n")
    wait_for("sleep runs", lambda: sb.process.exec("pgrep -fc '^sleep 1000'").result == "1\n")
    h.send_input(b"\x03")
    h.send_input("echo st''ill\n")
    r.until("still")
    h.send_input(b"\x04")
    check("end of input ends the shell", r.end().exit_code is not None)


def survives_its_client(sb):
    h = sb.process.create_pty_session(id="long")
    h.send_input("X=kept; echo rea''dy\n")
    seen = b""
    for chunk in h:
        seen += chunk
        if b"ready" in seen:
            break
    h.disconnect()
    equal("alive without clients", [s.id for s in sb.process.list_pty_sessions()], ["long"])
    one = sb.process.connect_pty_session("long")
    two = sb.process.connect_pty_session("long")
    r1, r2 = Reader(one), Reader(two)
    one.send_input('echo "<$X>"\n')
    r1.until("<kept>")
    r2.until("<kept>")
    two.resize(PtySize(cols=50, rows=10))
    one.resize(PtySize(cols=60, rows=20))
    two.send_input("stty size\n")
    r1.until("20 60")
    r2.until("20 60")
    one.send_input("exit 5\n")
    equal("both see the end", (r1.end().exit_code, r2.end().exit_code), (5, 5))


def a15_drained_to_the_last_byte(sb):
    want = "".join(f"{i}\r\n" for i in range(1, 20001)).encode()
    for n in range(5):
        h = sb.process.create_pty_session(id=f"drain{n}")
        r = Reader(h)
        h.send_input("PS1=; stty -echo; echo be''gin\n")
        r.until("begin\r\n")
        h.send_input("seq 1 20000; exit 3\n")
        got = r.end(60)
        tail = r.data.split(b"begin\r\n", 1)[1]
        check(f"a15: round {n}", want in tail, (len(tail), tail[-60:]))
        equal(f"a15: code {n}", got.exit_code, 3)


def a8_others_hold_the_terminal(sb):
    h = sb.process.create_pty_session(id="held")
    r = Reader(h)
    h.send_input("setsid sleep 600 & echo go''es; exit 4\n")
    began = time.monotonic()
    equal("a8: code", r.end().exit_code, 4)
    check("a8: at once", time.monotonic() - began < 5, time.monotonic() - began)
    check("a8: words came", b"goes" in r.data, r.data[-100:])


async def asynchronous_client():
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
        data = bytearray()

        async def on_data(chunk):
            data.extend(chunk)

        async def until(want):
            for _ in range(1000):
                if want in data:
                    return
                await asyncio.sleep(0.02)
            check(f"async: says {want!r}", False, bytes(data[-200:]))
        h = await sb.process.create_pty_session(id="a", on_data=on_data, envs={"A": "x"},
                                                pty_size=PtySize(cols=90, rows=20))
        await h.wait_for_connection()
        await h.send_input('echo "<$A>"; stty size\n')
        await until(b"<x>")
        await until(b"20 90")
        info = await h.resize(PtySize(cols=70, rows=21))
        equal("async: resize", (info.cols, info.rows), (70, 21))
        equal("async: list", [s.id for s in await sb.process.list_pty_sessions()], ["a"])
        equal("async: info", (await sb.process.get_pty_session_info("a")).rows, 21)
        await h.send_input("exit 9\n")
        got = await asyncio.wait_for(h.wait(), 20)
        equal("async: code", got.exit_code, 9)
        h = await sb.process.create_pty_session(id="b", on_data=on_data)
        await h.send_input("sleep 1000\n")
        await sb.process.kill_pty_session("b")
        equal("async: kill", (await asyncio.wait_for(h.wait(), 20)).exit_code, 137)
        await raises_async("async: none", sdk.DaytonaNotFoundError,
                           lambda: sb.process.get_pty_session_info("b"), status=404)
        await sb.delete()


def main():
    d = Daytona()
    sb = d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (talk, options, kill, interrupt, survives_its_client, a15_drained_to_the_last_byte,
               a8_others_hold_the_terminal):
        section(fn, sb)
    sb.delete()
    section(asynchronous_client)
    finish(45)


main()
