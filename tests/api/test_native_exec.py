"""Native execs: attached and detached, exact bytes, input, output from an offset, ends."""
import base64
import hashlib
import json
import threading
import time

import pytest

from prochelp import native, ps, raw_request, sse
from resthelp import wait_for

SSE = {"Accept": "text/event-stream"}
LINES = {"Accept": "application/x-ndjson"}
MIB = 1 << 20


def run(api, box, headers=None, **fields):
    return api.post(native(box, "/exec"), fields, headers=headers)


def start(api, box, **fields):
    status, got = api.request("POST", native(box, "/exec"), {"detach": True, **fields})
    assert status == 202, got
    return got["id"]


def at(box, ident, rest=""):
    return native(box, f"/exec/{ident}{rest}")


def wait(api, box, ident, seconds=20):
    got = api.get(at(box, ident, f"/wait?timeoutMs={seconds * 1000}"))
    assert got["state"] == "ended", got
    return got


def bad(api, status, method, path, body=None, says=(), code=None, **kw):
    got, reply = api.request(method, path, body, **kw)
    assert got == status, (got, reply)
    assert reply["statusCode"] == status and reply["requestId"], reply
    for text in [says] if isinstance(says, str) else says:
        assert text in reply["message"], reply
    assert code is None or reply["code"] == code, reply
    return reply


def test_argv_runs_without_a_shell(api, box):
    got = run(api, box, argv=["printf", "%s|", "a b", "$HOME", "'"])
    assert got == {"state": "ended", "exitCode": 0, "cause": "exited", "stdout": "a b|$HOME|'|",
                   "stdoutBytes": 12, "stderr": "", "stderrBytes": 0, "encoding": "text",
                   "truncated": False}


def test_streams_codes_env_directory_user(api, box):
    got = run(api, box, command="echo \"$A\" >&2; pwd; id -un; exit 7", env={"A": "x y"},
              cwd="/tmp", user="root")
    assert (got["stdout"], got["stderr"], got["exitCode"]) == ("/tmp\nroot\n", "x y\n", 7)


@pytest.mark.parametrize("fields,want", [
    ({"command": "kill -TERM $$"}, {"cause": "signal", "signal": 15, "exitCode": 143}),
    ({"command": "kill -KILL $$"}, {"cause": "signal", "signal": 9, "exitCode": 137}),
    ({"command": "sleep 60", "timeoutMs": 300}, {"cause": "timeout", "signal": 9, "exitCode": 137}),
    ({"command": "sleep 60", "timeout": 1}, {"cause": "timeout"}),
    ({"command": "exit 255"}, {"cause": "exited", "exitCode": 255}),
])
def test_a5_cause_of_death(api, box, fields, want):
    for more in ({}, {"detach": True}):
        got = run(api, box, **fields, **more)
        if more:
            got = wait(api, box, got["id"])
        assert want.items() <= got.items(), got


@pytest.mark.parametrize("body,says", [
    ({}, "argv: one of argv and command"), ({"command": "x", "argv": ["x"]}, "argv: one of"),
    ({"command": ""}, "command: "), ({"command": " "}, "command: "), ({"argv": []}, "argv"),
    ({"argv": [5]}, "argv"), ({"argv": [""]}, "command"), ({"command": "x", "encoding": "hex"}, "encoding: "),
    ({"command": "x", "input": "***", "encoding": "base64"}, "input: "),
    ({"command": "x", "env": {"1": "a"}}, "env"), ({"command": "x", "timeoutMs": -1}, "timeoutMs: "),
    ({"command": "x", "tty": True}, "tty: "), ({"command": "x", "stdin": True}, "stdin: "),
    ({"command": "x", "cwd": "/nope"}, "/nope"), ({"command": "x", "user": "nosuch"}, "user: "),
    ({"command": "x", "maxOutput": -1}, "maxOutput: "),
])
def test_a30_a40_bad_input_is_4xx(api, box, body, says):
    for more in ({}, {"detach": True}):
        if more and ("tty" in body or "stdin" in body):
            continue
        status, reply = api.request("POST", native(box, "/exec"), {**body, **more})
        assert 400 <= status < 500 and says in reply["message"], (status, reply)


def test_a20_a21_text_and_exact_bytes(api, box):
    every = bytes(range(256)) * 40
    text = base64.b64encode(every).decode()
    got = run(api, box, argv=["cat"], input=text, encoding="base64")
    assert base64.b64decode(got["stdout"]) == every
    got = run(api, box, argv=["cat"], input="a\n\n\nb\r\n\n\u2615")
    assert got["stdout"] == "a\n\n\nb\r\n\n\u2615"
    for headers in (SSE, LINES):
        reply = run(api, box, headers, argv=["cat"], input=text, encoding="base64")
        events = sse(reply) if headers is SSE else [json.loads(x) for x in reply.splitlines()]
        assert [e["type"] for e in events][::len(events) - 1] == ["start", "exit"]
        assert b"".join(base64.b64decode(e["data"]) for e in events if e["type"] == "stdout") == every


def test_a21_events_never_split_a_character(api, box):
    word = "\u2615" * 100
    reply = run(api, box, SSE, command=f"i=0; while [ $i -lt 1000 ]; do printf {word}; i=$((i+1)); done;"
                r" printf 'caf\303'; sleep 0.2; printf '\251'; printf 'x\342\230'")
    offset, text = 0, ""
    for e in sse(reply):
        if e["type"] == "stdout":
            assert e["offset"] == offset
            text += e["data"]
            offset += len(e["data"].encode())
    assert text == word * 1000 + "caf\u00e9x\ufffd"


def test_events_come_as_they_happen(api, box):
    with raw_request(api, "POST", f"/api{native(box)}/exec",
                     b'{"command": "echo one; read x; echo never"}', ["Accept: text/event-stream"]):
        pass
    conn = api.connect()
    began = time.monotonic()
    conn.request("POST", f"/api{native(box)}/exec",
                 json.dumps({"command": "echo one; sleep 2; echo two"}),
                 {"Authorization": f"Bearer {api.key}", **SSE})
    reply = conn.getresponse()
    seen = b""
    while b"one" not in seen:
        seen += reply.read1(65536)
    assert time.monotonic() - began < 1.5
    seen += reply.read()
    assert sse(seen.decode())[-1]["exitCode"] == 0
    conn.close()


def test_a13_stream_of_two_hundred_megabytes_is_whole(api, box):
    conn = api.connect()
    conn.request("POST", f"/api{native(box)}/exec", json.dumps({
        "command": "head -c 200000000 /dev/zero | tr '\\0' Z"}),
        {"Authorization": f"Bearer {api.key}", **LINES})
    reply, total, last, rest = conn.getresponse(), 0, None, b""
    while True:
        got = reply.read1(MIB)
        if not got:
            break
        lines = (rest + got).split(b"\n")
        rest = lines.pop()
        for line in lines:
            last = line
            if line.startswith(b'{"type":"stdout"'):
                total += line.count(b"Z")
    conn.close()
    end = json.loads(last)
    assert end["type"] == "exit" and end["exitCode"] == 0 and end["stdoutBytes"] == 200000000
    assert total == 200000000


def test_a18_input_of_many_megabytes(api, box):
    data = hashlib.sha256(b"x").digest() * (2 * MIB)  # 64 MiB
    ident = start(api, box, argv=["sha256sum"], stdin=True)
    half = len(data) // 2
    assert api.post(at(box, ident, "/stdin?eof=false"), data[:half]) == {"written": half}
    assert api.post(at(box, ident, "/stdin"), data[half:]) == {"written": half}
    wait(api, box, ident)
    assert api.get(at(box, ident, "/output"))["stdout"].split()[0] == hashlib.sha256(data).hexdigest()
    status, reply = api.request("POST", at(box, ident, "/stdin"), b"late")
    assert status == 410, reply
    body = base64.b64encode(data[:8 * MIB // 2]).decode()
    got = run(api, box, argv=["sha256sum"], input=body, encoding="base64")
    assert base64.b64decode(got["stdout"]).split()[0] == hashlib.sha256(
        data[:4 * MIB]).hexdigest().encode()


def test_a18_process_that_reads_nothing_is_no_fault(api, box):
    got = run(api, box, command="exec true", input="x" * 500000)
    assert got["exitCode"] == 0
    ident = start(api, box, command="exec true", input="x" * 500000)
    assert wait(api, box, ident)["exitCode"] == 0


def test_a23_truncation_is_told_and_the_rest_is_there(api, box):
    got = run(api, box, command="head -c 3000000 /dev/zero | tr '\\0' x; exit 4", maxOutput=1000)
    assert got["truncated"] is True and got["stdoutBytes"] == 3000000 and got["exitCode"] == 4
    assert got["stdout"] == "x" * 1000
    got = run(api, box, {"Idempotency-Key": "a23"}, maxOutput=1000,
              command="head -c 50000000 /dev/zero | tr '\\0' x; printf end")
    assert got["truncated"] is True and got["stdoutBytes"] == 50000003 and len(got["stdout"]) <= 1000
    ident = got["id"]
    info = api.get(at(box, ident))
    first, total = info["stdout"]["first"], info["stdout"]["total"]
    assert total == 50000003 and total - first <= 8 * MIB and total - first > 7 * MIB
    bad(api, 410, "GET", at(box, ident, "/output/stdout?offset=1000"), code="OUTPUT_DROPPED",
        says=[str(first), str(total)])
    status, rest = api.request("GET", at(box, ident, f"/output/stdout?offset={first}"), raw=True)
    assert status == 200 and rest == b"x" * (total - first - 3) + b"end"
    status, part = api.request("GET", at(box, ident, f"/output/stdout?offset={total - 5}&length=4"),
                               raw=True)
    assert (status, part) == (200, b"xxen")
    bad(api, 400, "GET", at(box, ident, f"/output/stdout?offset={total + 1}"), says="offset")
    bad(api, 404, "GET", at(box, ident, "/output/nope"), says="stream")
    events = sse(api.request("GET", at(box, ident, "/output?follow=true"), headers=SSE)[1])
    gap = next(e for e in events if e["type"] == "gap")
    assert (gap["stream"], gap["from"], gap["to"]) == ("stdout", 0, first)


def test_detached_runs_on_and_is_read_from_an_offset(api, box):
    ident = start(api, box, command="echo one; echo err >&2; read x; echo \"two $x\"; exit 3", stdin=True)
    wait_for(lambda: api.get(at(box, ident))["stdout"]["total"] == 4)
    got = api.get(at(box, ident, "/output"))
    assert got["state"] == "running" and got["stdout"] == "one\n" and got["stderr"] == "err\n"
    assert any(x["id"] == ident for x in api.get(native(box, "/execs"))["items"])
    seen = []
    follower = threading.Thread(target=lambda: seen.append(
        api.get(at(box, ident, "/output?stdout=4&stderr=4&follow=true"))))
    follower.start()
    api.post(at(box, ident, "/stdin?eof=false"), b"go\n")
    follower.join(20)
    assert seen[0]["stdout"] == "two go\n" and seen[0]["exitCode"] == 3 and seen[0]["stderr"] == ""
    assert api.get(at(box, ident, "/wait?timeoutMs=0"))["state"] == "ended"
    assert api.request("DELETE", at(box, ident)) == (204, None)
    bad(api, 404, "GET", at(box, ident), code="PROCESS_NOT_FOUND")


def test_wait_ends_with_its_time(api, box):
    ident = start(api, box, argv=["sleep", "100"])
    began = time.monotonic()
    assert api.get(at(box, ident, "/wait?timeoutMs=200"))["state"] == "running"
    assert time.monotonic() - began < 2
    api.request("DELETE", at(box, ident))


def test_a50_kill_reaches_the_tree_twice(api, box):
    ident = start(api, box, command="sleep 7310 & setsid sleep 7311 & (setsid sh -c 'sleep 7312; :' &); wait")
    wait_for(lambda: ps(api, box).count("sleep 731") >= 3)
    got = api.post(at(box, ident, "/kill"))
    assert got["state"] == "ended" and got["exitCode"] == 137 and got["cause"] == "signal"
    assert "sleep 731" not in ps(api, box)
    status, again = api.request("POST", at(box, ident, "/kill"), {})
    assert status in (200, 410), again
    assert api.get(at(box, ident))["exitCode"] == 137


def test_signal_to_the_tree_or_the_first(api, box):
    ident = start(api, box, command="trap 'echo got; exit 9' USR1; while :; do sleep 0.05; done")
    time.sleep(0.2)
    assert api.request("POST", at(box, ident, "/signal"), {"signal": "SIGUSR1", "tree": False})[0] == 204
    got = wait(api, box, ident)
    assert got["exitCode"] == 9
    bad(api, 400, "POST", at(box, ident, "/signal"), {"signal": "SIGNOPE"}, says="signal: ")
    bad(api, 400, "POST", at(box, ident, "/signal"), {"signal": 9}, says="signal: ")
    status, _ = api.request("POST", at(box, ident, "/signal"), {"signal": "SIGTERM"})
    assert status == 410


def test_terminal_of_an_exec_is_resized(api, box):
    ident = start(api, box, command="stty size; read x; stty size", tty=True, cols=90, rows=20)
    wait_for(lambda: api.get(at(box, ident))["stdout"]["total"])
    got = api.post(at(box, ident, "/resize"), {"cols": 120, "rows": 40})
    assert (got["cols"], got["rows"]) == (120, 40)
    assert any(x["id"] == ident for x in api.get(native(box, "/execs"))["items"])
    api.post(at(box, ident, "/stdin?eof=false"), b"\n")
    wait(api, box, ident)
    out = api.get(at(box, ident, "/output"))["stdout"]
    assert "20 90" in out and "40 120" in out


def test_a26_hung_up_attached_exec_ends_after_five_seconds(api, box):
    for accept in ("application/json", "text/event-stream"):
        with raw_request(api, "POST", f"/api{native(box)}/exec", b'{"argv": ["sleep", "7320"]}',
                         [f"Accept: {accept}"]):
            wait_for(lambda: "sleep 7320" in ps(api, box))
        began = time.monotonic()
        time.sleep(2)  # it must still live: a slow network is no reason to kill at once
        assert "sleep 7320" in ps(api, box)
        wait_for(lambda: "sleep 7320" not in ps(api, box), 10)
        assert 3.5 < time.monotonic() - began < 9


def test_a26_quick_hang_ups_leave_nothing_stuck(api, box):
    for i in range(60):
        with raw_request(api, "POST", f"/api{native(box)}/exec", b'{"argv": ["sleep", "7330"]}',
                         ["Accept: text/event-stream"] if i % 2 else []):
            pass
    wait_for(lambda: "sleep 7330" not in ps(api, box), 20)
    assert run(api, box, argv=["echo", "fine"])["stdout"] == "fine\n"


def test_a31_a33_many_at_once_leave_no_zombies(api, box):
    wrong = []

    def worker(code):
        for i in range(10):
            got = run(api, box, command=f"(sleep 0.01 &); exit {code}")
            one = start(api, box, command=f"exit {code}")
            end = wait(api, box, one)
            if got["exitCode"] != code or end["exitCode"] != code:
                wrong.append((got, end))
            api.request("DELETE", at(box, one))
    threads = [threading.Thread(target=worker, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[:2]
    wait_for(lambda: " Z" not in ps(api, box))


def test_a25_chatty_process_without_a_reader_keeps_memory_flat(api, make):
    box = make()["id"]
    ident = start(api, box, command="while :; do head -c 1000000 /dev/zero; done")

    def used():
        return int(api.exec(box, "awk '/^VmRSS/ {print $2}' /proc/1/status")["result"])
    wait_for(lambda: api.get(at(box, ident))["stdout"]["total"] > 100e6, 60)
    first = used()
    total = api.get(at(box, ident))["stdout"]["total"]
    wait_for(lambda: api.get(at(box, ident))["stdout"]["total"] > total + 200e6, 60)
    assert used() < first + 2048 and used() < 12 * 1024
    info = api.get(at(box, ident))["stdout"]
    assert info["total"] - info["first"] <= 8 * MIB


def test_a53_memory_death_is_told(api, make):
    box = make()["id"]
    eat = "tail -c 1500000000 /dev/zero | tail -c 1"
    for more in ({}, {"detach": True}):
        got = run(api, box, command=f"exec {eat}" if not more else eat, **more)
        if more:
            got = wait(api, box, got["id"], 60)
        assert got["cause"] == "oom" and got["exitCode"] != 0, got
        assert got["oom"]["limit"] == 1 << 30 and got["oom"]["victim"], got


def test_ids_of_another_kind_or_nobody(api, box):
    for path in ("nope", "00000000-0000-4000-8000-000000000000"):
        for method, rest in (("GET", ""), ("GET", "/wait"), ("GET", "/output"), ("DELETE", ""),
                             ("GET", "/output/stdout"), ("POST", "/kill"), ("POST", "/stdin")):
            bad(api, 404, method, at(box, path, rest), {} if method == "POST" else None)


def test_forms_alternate_on_one_connection(api, box):
    conn = api.connect()
    for i in range(60):
        body = {"command": "echo a"} if i % 3 else {"command": "echo a", "tty": True}
        status, got = api.request("POST", native(box, "/exec"), body, conn=conn,
                                  headers=[{}, SSE, LINES][i // 3 % 3])
        assert status == (200 if i % 3 else 400), got
    conn.close()


def test_keyed_exec_runs_on_when_its_client_hangs_up(api, box):
    body = b'{"command": "echo one; sleep 1; echo two; exit 6"}'
    with raw_request(api, "POST", f"/api{native(box)}/exec", body, ["Idempotency-Key: hang"]):
        wait_for(lambda: any(x["stdout"]["total"] == 4 and x["state"] == "running"
                             for x in api.get(native(box, "/execs"))["items"]))
    for headers in ({}, SSE):
        status, got = api.request("POST", native(box, "/exec"), body,
                                  headers={"Idempotency-Key": "hang", **headers})
        assert status == 200
        if headers:
            assert sse(got)[-1]["exitCode"] == 6
        else:
            assert got["stdout"] == "one\ntwo\n" and got["exitCode"] == 6


def test_slow_client_of_an_attached_stream_slows_the_process(api, box):
    with raw_request(api, "POST", f"/api{native(box)}/exec",
                     b'{"command": "n=0; while head -c 1000000 /dev/zero; do n=$((n+1)); '
                     b'echo $n > /tmp/progress; done"}', ["Accept: text/event-stream"]):
        def progress():
            return int("0" + api.exec(box, "cat /tmp/progress 2>/dev/null")["result"].strip())
        seen = [-1]

        def stands():
            seen.append(progress())
            time.sleep(0.3)  # between two looks
            return seen[-1] > 0 and seen[-1] == progress()
        wait_for(stands, 30)
        assert seen[-1] < 50, "a client that reads nothing was sent 50 MB"
