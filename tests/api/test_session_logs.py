"""Logs of session commands: formats by client, markers, following, slow readers, what is dropped."""
import json
import time

import pytest

from prochelp import SDK, Session, demux, drain, raw_request
from resthelp import wait_for


@pytest.fixture
def s(api, box):
    session = Session(api, box)
    yield session
    session.delete()


def text(s, cmd, query="", **headers):
    status, got = s.api.request("GET", f"{s.url}/command/{cmd}/logs{query}", raw=True,
                                headers=headers)
    assert status == 200, got
    return got


def test_format_follows_the_version_of_the_client(s):
    cmd = s.run("echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c")["cmdId"]
    plain, marked = b"a\nb\nc\n", b"\1\1\1a\n\2\2\2b\n\1\1\1c\n"
    version = "X-Daytona-SDK-Version"
    assert text(s, cmd) == plain
    assert text(s, cmd, **{version: "0.26.9"}) == plain
    assert text(s, cmd, **{version: "0.27.0"}) == marked
    assert text(s, cmd, **{version: "0.166.9"}) == marked
    assert text(s, cmd, **{"X-Daytona-Split-Output": "true"}) == marked
    for new in ("0.167.0", "0.218.0", "1.0.0", "0.0.0-dev"):
        got = json.loads(text(s, cmd, **{version: new}))
        assert got == {"output": marked.decode(), "stdout": "a\nc\n", "stderr": "b\n"}, new
    for odd in ("", "x", "-1.5", "0", "9" * 40):
        assert text(s, cmd, **{version: odd}) in (plain, marked)


def test_follow_by_websocket_gets_all_and_closes_with_1000(s):
    cmd = s.start("echo early; sleep 0.3; echo late >&2; exit_() { return 3; }; exit_")
    ws = s.follow(cmd)
    assert ws.status == 101
    data, code, _ = drain(ws)
    assert demux(data) == (b"early\n", b"late\n") and code == 1000
    # The end is told only when the code is known.
    assert s.command(cmd)["exitCode"] == 3


def test_websocket_without_follow_sends_what_is_there(s):
    cmd = s.start("echo now; sleep 100")
    wait_for(lambda: s.logs(cmd)["stdout"])
    data, code, _ = drain(s.follow(cmd, "false"))
    assert demux(data) == (b"now\n", b"") and code == 1000


def test_follow_by_http_streams_text(s):
    cmd = s.start("for i in 1 2 3; do echo $i; sleep 0.1; done")
    assert text(s, cmd, "?follow=true") == b"1\n2\n3\n"


def test_exit_code_is_never_ahead_of_the_last_byte(s):
    for i in range(30):
        cmd = s.start(f"head -c 70000 /dev/zero; echo end{i}")
        wait_for(lambda c=cmd: "exitCode" in s.command(c))
        assert s.logs(cmd)["stdout"].endswith(f"end{i}\n")


def test_a20_a21_bytes_survive(s):
    got = s.run(r"printf 'a\n\n\nb\r\n\n'")
    assert got["stdout"] == "a\n\n\nb\r\n\n"
    got = s.run("i=0; while [ $i -lt 1000 ]; do printf " + "\u2615" * 100 + "; i=$((i+1)); done")
    assert got["stdout"] == "\u2615" * 100000
    assert s.run(r"printf 'caf\303'; sleep 0.2; printf '\251'")["stdout"] == "caf\u00e9"
    cmd = s.run(r"printf 'a\377b\342\230'")["cmdId"]
    assert text(s, cmd) == b"a\xffb\xe2\x98"


def test_background_bytes_stay_in_the_log(s):
    cmd = s.run("(sleep 0.3; echo behind) & echo front")["cmdId"]
    wait_for(lambda: s.logs(cmd)["stdout"] == "front\nbehind\n")


def test_a13_fifty_megabytes_pass_a_follower(api, box, s):
    cmd = s.start("head -c 50000000 /dev/zero | tr '\\0' x; echo end")
    data, code, _ = drain(s.follow(cmd))
    out, err = demux(data)
    assert code == 1000 and out.endswith(b"end\n")
    # A follower that is too slow for the ring is told so, and nothing is passed over in silence.
    dropped = sum(int(line.split()[0][1:]) for line in err.decode().splitlines())
    assert len(out) + dropped == 50000004


def test_a23_dropped_output_is_told(s):
    got = s.run("head -c 20000000 /dev/zero | tr '\\0' y; echo; echo last")
    cmd = got["cmdId"]
    log = s.logs(cmd)
    assert log["truncated"] is True and log["totalBytes"] == 20000006
    assert log["stdout"].endswith("last\n") and len(log["stdout"]) <= 8 << 20
    status, head = s.api.request("GET", f"{s.url}/command/{cmd}/logs", raw=True)
    assert status == 200 and head.endswith(b"last\n")
    base = f"/caisson/sandboxes/{s.box}/sessions/{s.name}/commands/{cmd}/output/stdout"
    status, reply = s.api.request("GET", f"{base}?offset=0")
    assert status == 410 and "20000006" in reply["message"], reply
    first = int(reply["message"].split("; ")[1].split()[0])
    status, rest = s.api.request("GET", f"{base}?offset={first}", raw=True)
    assert status == 200 and len(rest) == 20000006 - first and rest.endswith(b"\nlast\n")


def test_native_reader_resumes_at_an_offset(s):
    cmd = s.start("echo one; read x; echo two")
    base = f"/caisson/sandboxes/{s.box}/sessions/{s.name}/commands/{cmd}/output"
    wait_for(lambda: s.logs(cmd)["stdout"])
    assert s.api.get(f"{base}?stdout=0")["stdout"] == "one\n"
    s.input(cmd, "x")
    s.wait(cmd)
    got = s.api.get(f"{base}?stdout=4&follow=true")
    assert got["stdout"] == "x\ntwo\n" and got["state"] == "ended" and got["exitCode"] == 0
    assert s.api.request("GET", f"{base}?stdout=1000")[0] == 400


def test_slow_reader_slows_neither_the_process_nor_others(api, box, s):
    began = time.monotonic()
    cmd = s.start("head -c 30000000 /dev/zero | tr '\\0' z; echo end")
    slow = s.follow(cmd)  # reads nothing for now
    with raw_request(api, "GET", f"{s.url}/command/{cmd}/logs?follow=true"):
        assert s.wait(cmd, 60) == 0
    assert time.monotonic() - began < 30
    assert s.logs(cmd)["stdout"].endswith("end\n")
    data, code, _ = drain(slow)
    out, err = demux(data)
    dropped = sum(int(line.split()[0][1:]) for line in err.decode().splitlines())
    assert code == 1000 and out.endswith(b"end\n") and len(out) + dropped == 30000004


def test_readers_that_vanish_leave_nothing(api, s):
    cmd = s.start("while :; do echo tick; sleep 0.01; done")
    for _ in range(30):
        s.follow(cmd).close()
    ws = s.follow(cmd)
    op, got = ws.recv()
    assert op == 2 and b"tick" in got
    ws.close()


def test_sdk_header_alone_makes_json_of_a_running_command(s):
    cmd = s.start("echo x; sleep 100")
    wait_for(lambda: s.logs(cmd)["stdout"] == "x\n")
    assert set(s.api.get(f"{s.url}/command/{cmd}/logs", headers=SDK)) == {
        "output", "stdout", "stderr"}
