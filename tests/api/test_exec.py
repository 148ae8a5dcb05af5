"""process/execute: output, codes, limits of time and size, and what hostile input comes to."""
import glob
import json
import os
import signal
import socket
import threading
import time

import pytest

from resthelp import WebSocket, refused, wait_for

ARGS = ("--output-max", "1M")


def run(api, box, command, **fields):
    return api.exec(box, command, **fields)


def url(box):
    return f"/toolbox/{box}/process/execute"


def test_result_holds_both_streams_in_order(api, box):
    got = run(api, box, "echo a; echo b >&2; echo c")
    assert got == {"result": "a\nb\nc\n", "exitCode": 0}


@pytest.mark.parametrize("command,code", [
    ("exit 3", 3), ("exit 255", 255), ("no-such-program", 127), ("/etc/passwd", 126),
    ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("false", 1), ("true", 0),
])
def test_exit_codes(api, box, command, code):
    assert run(api, box, command)["exitCode"] == code


def test_env_cwd_and_quotes(api, box):
    envs = {"A": "x y", "B": "'\"$(id)`id`\\", "C": "\u65e5\u672c\u2615"}
    got = run(api, box, 'printf "%s|%s|%s|" "$A" "$B" "$C"; pwd', envs=envs, cwd="/tmp")
    assert got["result"] == "x y|'\"$(id)`id`\\|\u65e5\u672c\u2615|/tmp\n"


@pytest.mark.parametrize("envs,says", [
    ({"1A": "x"}, "envs: the name '1A'"), ({"A": 5}, "envs.A: must be a string"),
    ([], "envs: must be an object of strings"),
])
def test_bad_envs_are_named_as_sent(api, box, envs, says):
    refused(api, 400, "POST", url(box), {"command": "true", "envs": envs}, says=says)
    refused(api, 400, "POST", f"/toolbox/{box}/process/code-run",
            {"code": "", "language": "python", "envs": envs}, says=says)


def test_default_directory_and_user(api, box):
    got = run(api, box, "pwd; id -un; echo $HOME")["result"].split()
    assert got == ["/home/daytona", "daytona", "/home/daytona"]


def test_a5_timeout_ends_in_time_with_its_own_error(api, box):
    began = time.monotonic()
    refused(api, 408, "POST", url(box), {"command": "sleep 60", "timeout": 1}, says="timeout",
            code="PROCESS_EXECUTION_TIMEOUT")
    assert 0.9 < time.monotonic() - began < 3


def test_a6_timeout_kills_the_whole_tree(api, box):
    refused(api, 408, "POST", url(box), {
        "command": "sleep 611 & setsid sleep 612 & (setsid sh -c 'sleep 613 & wait' &) ; wait",
        "timeout": 1})
    got = run(api, box, "ps -o args")["result"]
    assert "sleep 61" not in got, got


def test_device_nodes_are_for_everybody(api, box):
    got = run(api, box, "cd /dev && stat -c %a null zero full random urandom tty; echo x > null")
    assert got == {"result": "666\n" * 6, "exitCode": 0}


def test_background_process_does_not_hold_the_reply(api, box):
    began = time.monotonic()
    assert run(api, box, "sleep 614 & echo done")["result"] == "done\n"
    assert time.monotonic() - began < 5
    run(api, box, "pkill -f 'sleep 614'; true")


@pytest.mark.parametrize("value,status", [
    ("0", 200), ("null", 200), ("10", 200), ("-1", 400), ("1e308", 400), ('"5"', 400),
    ("9223372036854775808", 400), ("86401", 400), ("1.5", 400), ("true", 400),
])
def test_e10_timeout_values(api, box, value, status):
    got, reply = api.request("POST", url(box), f'{{"command":"true","timeout":{value}}}'.encode())
    assert got == status, reply
    assert status == 200 or reply["message"].startswith("timeout: "), reply


@pytest.mark.parametrize("body,says", [
    ({"command": ""}, "command: must not be empty"), ({}, "command: is required"),
    ({"command": 5}, "command: must be a string"), ({"command": ["ls"]}, "command: "),
    ({"command": "x", "cwd": 5}, "cwd: "), ({"command": "x", "envs": []}, "envs: "),
    ({"command": "x", "envs": {"A": 5}}, "envs.A: "), ({"command": "x", "envs": {"1": "x"}}, "env"),
    ({"command": "x", "envs": {"A=B": "x"}}, "env"), ({"command": "a" * 600000}, "command: "),
])
def test_a30_bad_input_is_400_json(api, box, body, says):
    refused(api, 400, "POST", url(box), body, says=says)


def test_a30_no_body_and_no_json(api, box):
    refused(api, 400, "POST", url(box), b"", says="command: is required")
    refused(api, 400, "POST", url(box), b"ls -l", says="body: ")
    refused(api, 413, "POST", url(box), b'{"command":"' + b"x" * (9 << 20) + b'"}')


@pytest.mark.parametrize("cwd", ["/nope", "/etc/passwd", "/root", "../../nope"])
def test_a40_bad_directory_is_4xx_naming_it(api, box, cwd):
    status, reply = api.request("POST", url(box), {"command": "pwd", "cwd": cwd})
    assert 400 <= status < 500 and cwd.strip("./") in reply["message"], reply


def test_a20_bytes_survive(api, box):
    assert run(api, box, r"printf 'a\n\n\nb\r\n\n'")["result"] == "a\n\n\nb\r\n\n"
    assert run(api, box, r"printf 'a\000b\001'")["result"] == "a\0b\x01"


def test_a21_characters_are_never_split(api, box):
    got = run(api, box, "i=0; while [ $i -lt 1000 ]; do printf "
                        + "\u2615" * 100 + "; i=$((i+1)); done", timeout=60)
    assert got["result"] == "\u2615" * 100000
    assert run(api, box, r"printf 'caf\303'; sleep 0.2; printf '\251'")["result"] == "caf\u00e9"
    assert run(api, box, r"printf 'a\377b\342\230'")["result"] == "a\ufffdb\ufffd"


def test_a23_output_beyond_the_ceiling_is_told(api, box):
    got = run(api, box, "head -c 3000000 /dev/zero | tr '\\0' x; exit 4", timeout=60)
    assert got["truncated"] is True and got["totalBytes"] == 3000000 and got["exitCode"] == 4
    assert got["result"] == "x" * (1 << 20)


def test_a23_ceiling_never_cuts_a_character(api, box):
    got = run(api, box, "yes " + "\u2615" * 10 + " | head -c 3000000", timeout=60)
    assert got["truncated"] is True and "\ufffd" not in got["result"]


def test_a10_codes_are_right_every_time(api, box):
    conn = api.connect()
    for i in range(300):
        status, got = api.request("POST", url(box), {"command": f"exit {i % 7}"}, conn=conn)
        assert status == 200 and got["exitCode"] == i % 7
    conn.close()


def test_a33_many_at_once(api, box):
    bad = []

    def worker(code):
        conn = api.connect()
        for _ in range(40):
            status, got = api.request("POST", url(box), {"command": f"exit {code}"}, conn=conn)
            if status != 200 or got["exitCode"] != code:
                bad.append((status, got))
        conn.close()
    threads = [threading.Thread(target=worker, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad, bad[:3]


def test_a31_no_zombies(api, box):
    for _ in range(50):
        run(api, box, "sh -c 'sleep 0.01 &'; sh -c 'sleep 0.01 &'")
    wait_for(lambda: " Z" not in run(api, box, "ps -o stat,args")["result"])


def test_a26_hung_up_client_ends_the_command(api, box):
    body = b'{"command":"exec sleep 615.5"}'
    s = socket.create_connection(("127.0.0.1", api.port))
    s.sendall(f"POST {url(box)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {api.key}\r\n"
              f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    wait_for(lambda: "615.5" in run(api, box, "ps -o args")["result"])
    s.close()
    wait_for(lambda: "sleep 615.5" not in run(api, box, "ps -o args")["result"])


def test_one_stuck_command_blocks_nobody(api, box):
    t = threading.Thread(target=lambda: api.request("POST", url(box), {
        "command": "sleep 3", "timeout": 5}))
    t.start()
    began = time.monotonic()
    assert run(api, box, "echo ok")["result"] == "ok\n"
    assert time.monotonic() - began < 2
    t.join()


def test_a41_lost_directory_falls_back_and_says_so(api, make):
    sb = make()
    run(api, sb["id"], "rm -rf /home/daytona 2>/dev/null || mv /home/daytona /gone; true")
    got = run(api, sb["id"], "echo here")
    assert got["exitCode"] == 0 and got["result"] == "here\n"


def test_a53_memory_death_is_told(api, make):
    sb = make()
    got = run(api, sb["id"], "head -c 1600m /dev/zero | tail -c 1500m > /dev/null", timeout=60)
    assert got["exitCode"] == 137, got
    assert got["cause"] == "oom" and got["oom"]["limit"] == 1 << 30, got
    assert got["oom"]["peak"] > 900 << 20 and got["oom"]["victim"], got
    assert run(api, sb["id"], "echo alive")["result"] == "alive\n"


def test_stopped_sandbox_is_a_clear_409(api, make):
    sb = make()
    api.post(f"/sandbox/{sb['id']}/stop")
    for method, path in (("POST", "/process/execute"), ("GET", "/files"), ("GET", "/user-home-dir")):
        refused(api, 409, method, f"/toolbox/{sb['id']}{path}",
                {"command": "true"} if method == "POST" else None)


def test_unknown_sandbox_is_404(api):
    for name in ("00000000-0000-4000-8000-000000000000", "no-such"):
        refused(api, 404, "POST", url(name), {"command": "true"}, code="NOT_FOUND")


def test_env_update_reaches_later_processes(api, make):
    sb = make(env={"A": "1", "KEEP": "k"})
    path = f"/toolbox/{sb['id']}/env"
    assert api.post(path, {"set": {"B": "2", "A": "3"}}) == {"A": "3", "B": "2", "KEEP": "k"}
    assert run(api, sb["id"], "echo $A$B$KEEP")["result"] == "32k\n"
    assert api.post(path, {"unset": ["A"]}) == {"B": "2", "KEEP": "k"}
    assert run(api, sb["id"], "echo ${A-none}")["result"] == "none\n"
    assert api.post(path, {"unsetValuePrefix": "2"}) == {"KEEP": "k"}
    for body in ({"set": {"1": "x"}}, {"set": []}, {"unset": "A"}, {"set": {"A": None}}):
        refused(api, 400, "POST", path, body)


def test_directories_version_and_metrics(api, box):
    assert api.get(f"/toolbox/{box}/user-home-dir") == {"dir": "/home/daytona"}
    assert api.get(f"/toolbox/{box}/project-dir") == {"dir": "/home/daytona"}
    assert api.get(f"/toolbox/{box}/work-dir") == {"dir": "/home/daytona"}
    assert api.get(f"/toolbox/{box}/version")["version"]
    m = api.get(f"/toolbox/{box}/system/metrics")
    assert m["cpuCount"] == 1 and m["memTotal"] == 1 << 30
    assert 0 < m["memUsed"] < m["memTotal"] and m["diskTotal"] > 0
    assert m["timestampUnix"] > 1700000000 and isinstance(m["cpuUsedPct"], (int, float))
    for key in ("memCache", "diskUsed", "diskFree"):
        assert type(m[key]) is int, key


def inits(api):
    """Pids on the host of all sandboxes' first processes."""
    found = set()
    for p in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{p}/cgroup", encoding="ascii") as f:
                ours = f"/caisson-{api.instance}/" in f.read()
            with open(f"{p}/status", encoding="utf-8") as f:
                if ours and any(x.startswith("NSpid:") and x.split()[-1] == "1" for x in f):
                    found.add(int(os.path.basename(p)))
        except OSError:
            pass
    return found


def test_e25_one_frozen_sandbox_harms_no_other(api, box, make):
    before = inits(api)
    sb = make()
    pid, = inits(api) - before
    os.kill(pid, signal.SIGSTOP)
    try:
        frozen = []
        t = threading.Thread(target=lambda: frozen.append(api.request(
            "GET", f"/toolbox/{sb['id']}/files?path=/")))
        t.start()
        for _ in range(20):
            began = time.monotonic()
            assert run(api, box, "echo ok")["result"] == "ok\n"
            assert any(x["id"] == sb["id"] for x in api.get("/sandbox")["items"])
            assert time.monotonic() - began < 2
        t.join(45)
        assert frozen and frozen[0][0] in (408, 502, 503, 504), frozen
    finally:
        os.kill(pid, signal.SIGCONT)
    assert run(api, sb["id"], "echo back")["result"] == "back\n"


@pytest.mark.parametrize("method,path,how", [("POST", "/stop?force=true", "stopped"),
                                             ("DELETE", "", "deleted")])
def test_a_command_cut_off_by_the_end_of_its_sandbox_says_so(api, make, method, path, how):
    sb = make()["id"]
    got = []
    cut = threading.Thread(target=lambda: got.append(api.request(
        "POST", url(sb), {"command": "touch /tmp/runs; sleep 60"})))
    cut.start()
    wait_for(lambda: run(api, sb, "test -e /tmp/runs")["exitCode"] == 0)
    api.call(method, f"/sandbox/{sb}{path}")
    cut.join(20)
    status, reply = got[0]
    assert status == 410, reply
    assert reply["message"] == f"sandbox {sb} was {how} while the command ran"
    assert reply["code"] == "SANDBOX_STOPPED"


def test_an_attached_command_cut_off_by_a_stop_says_so(api, make):
    sb = make(autoStopInterval=0)
    ws = WebSocket(api, f"/api/caisson/sandboxes/{sb['id']}/exec")
    ws.send(json.dumps({"argv": ["/bin/sh", "-c", "echo on; sleep 60"]}))
    assert ws.recv() == (2, b"\x01on\n")
    api.post(f"/sandbox/{sb['id']}/stop?force=true")
    op, data = ws.recv()
    assert (op, json.loads(data)["type"]) == (1, "error")
    assert "was stopped while the command ran" in json.loads(data)["error"]["message"]
