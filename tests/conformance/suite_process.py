"""Sessions through the Python SDK: shells that live on, logs, followers, input, ends."""
import asyncio
import threading
import time
import uuid

import daytona as sdk
from daytona import CreateSandboxFromSnapshotParams, Daytona, SessionExecuteRequest

from check import check, equal, finish, raises, raises_async, section, wait_for

ASK = ('printf "Your name: \\n"; read name; printf "Hello, %s\\n" "$name"; '
       'n=1; while (( n <= 3 )); do echo "Count: $n"; (( n++ )); sleep 0.1; done; no-such-program-x')


def run(sb, session, command, **kw):
    return sb.process.execute_session_command(session, SessionExecuteRequest(command=command, **kw))


def new(sb):
    session = f"s-{uuid.uuid4().hex[:8]}"
    sb.process.create_session(session)
    return session


def follow(sb, session, command):
    """stdout and stderr as the callbacks got them, once the stream has ended."""
    out, err = [], []
    asyncio.run(asyncio.wait_for(sb.process.get_session_command_logs_async(
        session, command, out.append, err.append), 60))
    return "".join(out), "".join(err)


def life_of_a_session(sb):
    p = sb.process
    p.create_session("exec-session-1")
    s = p.get_session("exec-session-1")
    equal("session: id", s.session_id, "exec-session-1")
    equal("session: no commands yet", s.commands, [])
    first = run(sb, "exec-session-1", "export FOO=BAR")
    equal("session: export", first.exit_code, 0)
    s = p.get_session("exec-session-1")
    equal("session: its command", [(c.id, c.command, c.exit_code) for c in s.commands],
          [(first.cmd_id, "export FOO=BAR", 0)])
    c = p.get_session_command("exec-session-1", first.cmd_id)
    equal("session: command", (c.id, c.command, c.exit_code), (first.cmd_id, "export FOO=BAR", 0))
    second = run(sb, "exec-session-1", "echo $FOO")
    equal("session: variable", (second.stdout, second.stderr, second.exit_code), ("BAR\n", "", 0))
    logs = p.get_session_command_logs("exec-session-1", second.cmd_id)
    equal("session: logs", (logs.stdout, logs.stderr), ("BAR\n", ""))
    check("session: combined logs", "BAR" in logs.output, logs)
    check("session: listed", "exec-session-1" in [s.session_id for s in p.list_sessions()])
    raises("session: taken id", sdk.DaytonaConflictError, lambda: p.create_session("exec-session-1"),
           status=409)
    p.delete_session("exec-session-1")
    check("session: gone", "exec-session-1" not in [s.session_id for s in p.list_sessions()])
    for what, fn in (("get", lambda: p.get_session("exec-session-1")),
                     ("delete", lambda: p.delete_session("exec-session-1")),
                     ("exec", lambda: run(sb, "exec-session-1", "true"))):
        raises(f"session: {what} of none", sdk.DaytonaNotFoundError, fn, status=404)
    raises("session: entrypoint is no name", sdk.DaytonaBadRequestError,
           lambda: p.create_session("entrypoint"), status=400)


def shell_keeps_its_state(sb):
    s = new(sb)
    for command in ("cd /tmp", "f() { echo f:$1; }", "set -o pipefail", "umask 027"):
        equal(f"state: {command}", run(sb, s, command).exit_code, 0)
    equal("state: cwd", run(sb, s, "pwd").stdout, "/tmp\n")
    equal("state: function", run(sb, s, "f 1").stdout, "f:1\n")
    equal("state: option", run(sb, s, "false | true").exit_code, 1)
    equal("state: umask", run(sb, s, "umask").stdout.strip().lstrip("0"), "27")
    equal("state: other session has none", run(sb, new(sb), "pwd").stdout, "/home/daytona\n")
    both = run(sb, s, "echo out; echo err >&2; printf tail")
    equal("streams are apart", (both.stdout, both.stderr), ("out\ntail", "err\n"))
    equal("unicode", run(sb, s, "echo h\u00e9 \u65e5\u672c").stdout, "h\u00e9 \u65e5\u672c\n")
    equal("code", run(sb, s, "(exit 42)").exit_code, 42)
    equal("code of none", run(sb, s, "no-such-program-x").exit_code, 127)
    equal("stdin is at its end", run(sb, s, "cat; echo end").stdout, "end\n")
    raises("empty command", sdk.DaytonaBadRequestError, lambda: run(sb, s, ""), status=400)


def a1_texts_that_swallow_an_end(sb):
    s = new(sb)
    here = run(sb, s, "cat << 'EOF' > /tmp/t\nhi\nEOF")
    equal("a1: here-document", here.exit_code, 0)
    equal("a1: it was written", run(sb, s, "cat /tmp/t").stdout, "hi\n")
    check("a1: open quote fails", run(sb, s, "echo 'open").exit_code != 0)
    check("a1: open document ends", run(sb, s, "cat << EOF\nnever closed").exit_code is not None)
    equal("a1: still alive", run(sb, s, "echo ok").stdout, "ok\n")
    equal("a1: break", run(sb, s, "break; continue; echo on").exit_code, 0)
    equal("a1: comment", run(sb, s, "echo x # it's").stdout, "x\n")
    equal("a1: a dash begins a name", run(sb, s, "-- echo x").exit_code, 127)
    equal("a1: lines", run(sb, s, "echo a\necho b\n\necho c").stdout, "a\nb\nc\n")


def ends_of_a_shell(sb):
    for command, code in (("exit 3", 3), ("set -e; false; echo no", 1), ("exec true", 0),
                          ("kill -9 $$", 137)):
        s = new(sb)
        equal(f"end by {command}", run(sb, s, command).exit_code, code)
        raises(f"after {command}", sdk.DaytonaSessionEndedError, lambda s=s: run(sb, s, "echo x"),
               status=410, code="SESSION_ENDED", source="DAYTONA_DAEMON")
        got = sb.process.get_session(s)
        equal(f"record after {command}", got.commands[0].exit_code, code)
        sb.process.delete_session(s)


def asynchronous_with_input(sb):
    s = new(sb)
    out, err = [], []
    command = run(sb, s, ASK, run_async=True)
    check("async: id and no code", bool(command.cmd_id) and command.exit_code is None, command)

    async def talk():
        logs = asyncio.create_task(sb.process.get_session_command_logs_async(
            s, command.cmd_id, out.append, err.append))
        for _ in range(500):
            if "name" in "".join(out):
                break
            await asyncio.sleep(0.02)
        await asyncio.to_thread(sb.process.send_session_command_input, s, command.cmd_id, "Alice")
        await asyncio.wait_for(logs, 30)
    asyncio.run(talk())
    text = "".join(out)
    check("async: answer", "Your name: \n" in text and "Hello, Alice\n" in text, text)
    check("async: counts", all(f"Count: {n}\n" in text for n in (1, 2, 3)), text)
    check("async: stderr", "no-such-program-x" in "".join(err), err)
    check("async: no marks", "\x01" not in text and "\x02" not in "".join(err))
    equal("async: code", sb.process.get_session_command(s, command.cmd_id).exit_code, 127)
    raises("async: input after the end", sdk.DaytonaGoneError, lambda:
           sb.process.send_session_command_input(s, command.cmd_id, "late"), status=410)
    again = follow(sb, s, command.cmd_id)
    equal("async: follow again", again, (text, "".join(err)))
    logs = sb.process.get_session_command_logs(s, command.cmd_id)
    equal("async: logs", (logs.stdout, logs.stderr), (text, "".join(err)))


def input_echo(sb):
    s = new(sb)
    for quiet, want in ((False, "word\nlen 4\n"), (True, "len 4\n")):
        c = run(sb, s, 'read x; echo "len ${#x}"', run_async=True, suppress_input_echo=quiet)
        sb.process.send_session_command_input(s, c.cmd_id, "word")
        equal(f"echo suppressed {quiet}", follow(sb, s, c.cmd_id)[0], want)


def followers(sb):
    s = new(sb)
    c = run(sb, s, "for i in $(seq 5); do echo $i; echo e$i >&2; sleep 0.1; done", run_async=True)
    got = [None] * 5

    def one(i):
        got[i] = follow(sb, s, c.cmd_id)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    want = ("1\n2\n3\n4\n5\n", "e1\ne2\ne3\ne4\ne5\n")
    equal("five followers", got, [want] * 5)
    c = run(sb, s, "head -c 4194304 /dev/zero | tr '\\0' x; echo; echo end >&2", run_async=True)
    out, err = follow(sb, s, c.cmd_id)
    equal("4 MiB followed", (len(out), out.count("x"), err), (4194305, 4194304, "end\n"))
    c = run(sb, s, "printf 'caf\\xc3'; sleep 0.3; printf '\\xa9\\n'", run_async=True)
    equal("a21: split character", follow(sb, s, c.cmd_id)[0], "caf\u00e9\n")
    c = run(sb, s, "for i in $(seq 20000); do echo \u2615$i; done", run_async=True)
    equal("a21: many", follow(sb, s, c.cmd_id)[0], "".join(f"\u2615{i}\n" for i in range(1, 20001)))


def twenty_at_once_queue(sb):
    s = new(sb)
    got = [None] * 20

    def one(i):
        got[i] = run(sb, s, f"echo start {i} >> /tmp/queue; sleep 0.02; echo end {i} >> /tmp/queue")
    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    equal("queue: codes", [g and g.exit_code for g in got], [0] * 20)
    lines = sb.process.exec("cat /tmp/queue").result.splitlines()
    pairs = list(zip(lines[::2], lines[1::2]))
    check("queue: one after another", len(pairs) == 20 and all(
        a.split()[1] == b.split()[1] and a.startswith("start") for a, b in pairs), lines)


def deleting_ends_what_runs(sb):
    s = new(sb)
    run(sb, s, "setsid sleep 4711 & sleep 4711", run_async=True)
    wait_for("delete: it runs", lambda: "2" in sb.process.exec("pgrep -fc '^sleep 4711'").result)
    began = time.monotonic()
    sb.process.delete_session(s)
    check("delete: in time", time.monotonic() - began < 10, time.monotonic() - began)
    equal("delete: nothing is left", sb.process.exec("pgrep -fc '^sleep 4711'").result, "0\n")


def background_jobs(sb):
    s = new(sb)
    began = time.monotonic()
    got = run(sb, s, "(sleep 1; echo later) & echo now")
    check("job: the call does not wait", time.monotonic() - began < 0.9, time.monotonic() - began)
    check("job: first words", got.stdout.startswith("now\n"), got)
    wait_for("job: later words stay in its log", lambda: "later" in
             sb.process.get_session_command_logs(s, got.cmd_id).stdout)
    equal("job: next call", run(sb, s, "echo next").stdout, "next\n")


def entrypoint(sb):
    s = sb.process.get_entrypoint_session()
    equal("entrypoint: id", s.session_id, "entrypoint")
    logs = sb.process.get_entrypoint_logs()
    equal("entrypoint: logs", (logs.stdout, logs.stderr), ("", ""))
    check("entrypoint: not listed", "entrypoint" not in
          [x.session_id for x in sb.process.list_sessions()])
    out = []
    asyncio.run(asyncio.wait_for(sb.process.get_entrypoint_logs_async(out.append, out.append), 20))
    equal("entrypoint: follow ends", out, [])


def stop_ends_sessions(d):
    sb = d.create()
    s = new(sb)
    c = run(sb, s, "echo kept; sleep 100", run_async=True)
    sb.stop()
    sb.start()
    raises("stop: session", sdk.DaytonaGoneError, lambda: run(sb, s, "true"), status=410)
    raises("stop: command", sdk.DaytonaGoneError,
           lambda: sb.process.get_session_command(s, c.cmd_id), status=410)
    equal("stop: a new one works", run(sb, new(sb), "echo ok").stdout, "ok\n")
    sb.delete()


async def asynchronous_client():
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
        p = sb.process
        await p.create_session("one")

        async def go(command, **kw):
            return await p.execute_session_command("one", SessionExecuteRequest(command=command, **kw))
        equal("async client: export", (await go("export FOO=BAR")).exit_code, 0)
        equal("async client: echo", (await go("echo $FOO")).stdout, "BAR\n")
        c = await go(ASK, run_async=True)
        out, err = [], []

        async def on_err(chunk):
            err.append(chunk)
        logs = asyncio.create_task(p.get_session_command_logs_async("one", c.cmd_id, out.append, on_err))
        await p.send_session_command_input("one", c.cmd_id, "Bob")
        await asyncio.wait_for(logs, 30)
        check("async client: talk", "Hello, Bob\n" in "".join(out) and "Count: 3\n" in "".join(out), out)
        check("async client: stderr", "no-such-program-x" in "".join(err), err)
        equal("async client: code", (await p.get_session_command("one", c.cmd_id)).exit_code, 127)
        got = await asyncio.gather(*(go(f"echo {i}") for i in range(10)))
        equal("async client: ten at once", [g.stdout for g in got], [f"{i}\n" for i in range(10)])
        equal("async client: entrypoint", (await p.get_entrypoint_session()).session_id, "entrypoint")
        equal("async client: list", [s.session_id for s in await p.list_sessions()], ["one"])
        await raises_async("async client: taken", sdk.DaytonaConflictError,
                           lambda: p.create_session("one"), status=409)
        await p.delete_session("one")
        equal("async client: none left", await p.list_sessions(), [])
        await sb.delete()


def main():
    d = Daytona()
    sb = d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (life_of_a_session, shell_keeps_its_state, a1_texts_that_swallow_an_end,
               ends_of_a_shell, asynchronous_with_input, input_echo, followers, twenty_at_once_queue,
               deleting_ends_what_runs, background_jobs, entrypoint):
        section(fn, sb)
    sb.delete()
    section(stop_ends_sessions, d)
    section(asynchronous_client)
    finish(90)


main()
