"""Code in contexts of the interpreter, over the WebSocket of the contract."""
import concurrent.futures
import json
import time

import pytest

import cli_daemon
from interp_ws import Run, run, says
from resthelp import ISO, WebSocket, refused, wait_for

IMAGE = cli_daemon.DEFAULT


def context(api, box, **fields):
    return api.post(f"/toolbox/{box}/process/interpreter/context", fields)


def contexts(api, box):
    return api.get(f"/toolbox/{box}/process/interpreter/context")["contexts"]


def interrupt(api, box, ctx="default"):
    return api.request("POST", f"/caisson/sandboxes/{box}/interpreter/contexts/{ctx}/interrupt",
                       headers={"Content-Length": "0"})[0]


@pytest.fixture
def ctx(api, box):
    made = context(api, box)["id"]
    yield made
    api.request("DELETE", f"/toolbox/{box}/process/interpreter/context/{made}")


# ---- runs ----

def test_state_lives_and_contexts_do_not_see_each_other(api, box, ctx):
    run(api, box, "x = 1", ctx)
    run(api, box, "x = 2")
    says(api, box, "print(x)", "1\n", ctx)
    says(api, box, "print(x)", "2\n")


def test_frames_are_those_of_the_contract(api, box, ctx):
    got = run(api, box, "import sys\nprint('a')\nprint('b', file=sys.stderr)\n1/0", ctx)
    assert [f["type"] for f in got.frames] == ["stdout", "stderr", "error", "control"]
    assert got.frames[:2] == [{"type": "stdout", "text": "a\n"}, {"type": "stderr", "text": "b\n"}]
    assert got.error["name"] == "ZeroDivisionError" and got.error["value"] == "division by zero"
    assert "line 4" in got.error["traceback"]
    assert got.frames[3] == {"type": "control", "text": "completed"} and got.code == 1000


def test_output_is_streamed(api, box, ctx):
    r = Run(api, box, "import time\nprint('early')\ntime.sleep(1.5)\nprint('late')", ctx)
    began = time.monotonic()
    r.until("early")
    assert time.monotonic() - began < 1.2
    assert r.wait().stdout == "early\nlate\n"


def test_variables_and_directory(api, box):
    made = context(api, box, cwd="/tmp")["id"]
    says(api, box, "import os; print(os.environ['A'], os.getcwd(), os.environ['DAYTONA_SANDBOX_ID'])",
         f"\u2615 /tmp {box}\n", made, envs={"A": "\u2615"})
    says(api, box, "print(os.environ.get('A'))", "None\n", made)
    api.delete(f"/toolbox/{box}/process/interpreter/context/{made}")


def test_a21_characters_cut_between_reads_stay_whole(api, box, ctx):
    got = run(api, box, "print('\u2615' * 100_000)\nimport os, time\nos.write(1, b'caf\\xc3')\n"
              "time.sleep(0.2)\nos.write(1, b'\\xa9\\n')", ctx)
    assert got.stdout == "\u2615" * 100_000 + "\ncaf\u00e9\n"


def test_what_is_no_text_is_one_mark_each(api, box, ctx):
    got = run(api, box, "import os\nos.write(1, b'a\\xffb\\xe2\\x98')", ctx)
    assert got.stdout == "a\ufffdb\ufffd" and got.code == 1000


def test_200_mb_pass_whole(api, box, ctx):
    r = Run(api, box, "for i in range(200): print('x' * 999_999)", ctx)
    size = 0
    while (f := r.next()) and f["type"] == "stdout":
        size += len(f["text"])
        r.frames.clear()
    assert size == 200_000_000 and f["text"] == "completed"


def test_a_slow_reader_makes_the_code_wait(api, box, ctx):
    r = Run(api, box, "for i in range(40): print('x' * 999_999)\nopen('/tmp/slow', 'w').close()", ctx)
    time.sleep(2)
    assert api.request("GET", f"/toolbox/{box}/files/info?path=/tmp/slow")[0] == 404
    assert len(r.wait().stdout) == 40_000_000


def test_runs_in_one_context_queue_in_order(api, box, ctx):
    run(api, box, "n = []", ctx)
    runs = []
    for i in range(20):
        runs.append(Run(api, box, f"n.append({i})\nimport time; time.sleep(0.02)", ctx))
        time.sleep(0.005)
    for r in runs:
        assert r.wait().code == 1000
    got = json.loads(run(api, box, "print(n)", ctx).stdout)
    assert got == list(range(20))


def test_contexts_run_side_by_side(api, box):
    made = [context(api, box)["id"] for _ in range(3)]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda c: run(api, box, "import time; time.sleep(1)", c).code, made))
    assert done == [1000] * 3 and time.monotonic() - began < 2.5
    for c in made:
        api.delete(f"/toolbox/{box}/process/interpreter/context/{c}")


def test_a_second_call_takes_under_5_ms(api, box, ctx):
    run(api, box, "x = 0", ctx)
    times = []
    for _ in range(60):
        began = time.monotonic()
        assert run(api, box, "x += 1", ctx).code == 1000
        times.append(time.monotonic() - began)
    assert sorted(times)[30] < 0.005, sorted(times)


# ---- time and interrupts ----

def test_timeout_closes_with_4008_and_the_state_lives(api, box, ctx):
    run(api, box, "x = 7", ctx)
    began = time.monotonic()
    got = run(api, box, "print('on')\nwhile True: pass", ctx, timeout=1)
    assert got.code == 4008 and "1 s" in got.reason and got.stdout == "on\n"
    assert got.control is None and 0.9 < time.monotonic() - began < 2.5
    says(api, box, "print(x)", "7\n", ctx)


def test_code_that_ignores_the_interrupt_is_killed(api, box, ctx):
    began = time.monotonic()
    got = run(api, box, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
              "while True: pass", ctx, timeout=1)
    assert got.code == 4008 and 2.8 < time.monotonic() - began < 5
    got = run(api, box, "1", ctx)
    assert got.code == 1008 and "signal 9" in got.reason


def test_time_is_that_of_the_run_not_of_its_waiting(api, box, ctx):
    first = Run(api, box, "import time; time.sleep(1.5)", ctx)
    time.sleep(0.1)
    assert run(api, box, "print(1)", ctx, timeout=1).code == 1000
    first.wait()


def test_interrupt_is_a_native_route(api, box, ctx):
    run(api, box, "x = 7", ctx)
    r = Run(api, box, "print('on')\nimport time; time.sleep(60)", ctx).until("on")
    assert interrupt(api, box, ctx) == 204
    r.wait()
    assert (r.code, r.control, r.error["name"]) == (1000, "interrupted", "KeyboardInterrupt")
    says(api, box, "print(x)", "7\n", ctx)
    assert interrupt(api, box, ctx) == 204  # nothing runs
    assert interrupt(api, box, "no-such") == 404
    assert interrupt(api, box) == 204


def test_a_lost_socket_does_not_interrupt(api, box, ctx):
    r = Run(api, box, "print('on')\nimport time; time.sleep(1)\nprint('x' * 3_000_000)\ny = 9", ctx)
    r.until("on").ws.close()
    says(api, box, "print(y)", "9\n", ctx)  # it waited for the end, and saw none of its output


def test_one_that_leaves_the_queue_does_not_run(api, box, ctx):
    run(api, box, "seen = []", ctx)
    first = Run(api, box, "import time; time.sleep(1)", ctx)
    time.sleep(0.1)
    gone = Run(api, box, "seen.append(1)", ctx)
    time.sleep(0.1)
    gone.ws.close()
    first.wait()
    says(api, box, "print(seen)", "[]\n", ctx)


# ---- contexts ----

def test_contexts_are_created_listed_and_deleted(api, make):
    sb = make()["id"]
    assert contexts(api, sb) == []
    run(api, sb, "1")
    assert contexts(api, sb) == []  # the default one is hidden
    a = context(api, sb, language="python")
    b = context(api, sb, cwd="/")
    assert a["cwd"] == "/home/daytona" and b["cwd"] == "/" and a["active"] is True
    assert ISO.match(a["createdAt"]) and a["language"] == "python"
    assert contexts(api, sb) == [a, b]
    got = api.delete(f"/toolbox/{sb}/process/interpreter/context/{a['id']}")
    assert got["message"] and contexts(api, sb) == [b]
    refused(api, 404, "DELETE", f"/toolbox/{sb}/process/interpreter/context/{a['id']}",
            code="PROCESS_NOT_FOUND")


def test_delete_ends_all_processes_of_a_context(api, make):
    sb = make()["id"]
    c = context(api, sb)["id"]
    run(api, sb, "import subprocess\n"
        "subprocess.Popen('setsid sleep 4321 & sleep 4322', shell=True, start_new_session=True)", c)
    wait_for(lambda: "4321" in api.exec(sb, "ps aux")["result"])
    r = Run(api, sb, "import time; print(1); time.sleep(60)", c).until("1")
    api.delete(f"/toolbox/{sb}/process/interpreter/context/{c}")
    got = r.wait()
    assert got.code in (1000, 1008) and (got.error or {}).get("name", "InterpreterDied") == "InterpreterDied"
    left = api.exec(sb, "ps aux")["result"]
    assert "432" not in left and "python3" not in left, left


def test_contexts_made_at_once_are_all_there(api, make):
    sb = make()["id"]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda _: context(api, sb)["id"], range(6)))
    assert len(set(made)) == 6 and {c["id"] for c in contexts(api, sb)} == set(made)


@pytest.mark.parametrize("body,says_", [
    ({"language": "ruby"}, "language: "), ({"cwd": 5}, "cwd: "), ({"cwd": "/nope"}, "cwd: "),
    ({"cwd": "/etc/passwd"}, "cwd: "), ({"cwd": "x" * 5000}, "cwd: "),
])
def test_bad_contexts_are_refused(api, box, body, says_):
    refused(api, 400, "POST", f"/toolbox/{box}/process/interpreter/context", body, says=says_)
    assert not [c for c in contexts(api, box) if not c["active"]]


def test_the_default_context_cannot_be_deleted(api, box):
    refused(api, 400, "DELETE", f"/toolbox/{box}/process/interpreter/context/default")


# ---- bad clients ----

@pytest.mark.parametrize("message,code", [
    (b"{", 1002), (b"[]", 1002), (b"\xff\xfe", 1002), (b"{}", 1008), (b'{"code": 5}', 1008),
    (b'{"code": "1", "timeout": -1}', 1008), (b'{"code": "1", "timeout": "x"}', 1008),
    (b'{"code": "1", "envs": {"a b": "c"}}', 1008), (b'{"code": "1", "contextId": "nope"}', 1008),
    (b'{"code": "1", "contextId": ["a"]}', 1008),
])
def test_bad_first_messages_are_closed(api, box, message, code):
    r = Run(api, box, message)  # bytes go as a binary message
    assert r.wait().code == 1002
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return
    ws = WebSocket(api, f"/toolbox/{box}/process/interpreter/execute")
    ws.send(text)
    op, data = ws.recv()
    assert op == 8 and int.from_bytes(data[:2], "big") == code and len(data) > 4, data
    ws.close()


def test_a_plain_get_is_told_what_is_needed(api, box):
    refused(api, 400, "GET", f"/toolbox/{box}/process/interpreter/execute", says="Upgrade")


def test_a38_clients_that_write_and_vanish_harm_nobody(api, box, ctx):
    def one(i):
        ws = WebSocket(api, f"/toolbox/{box}/process/interpreter/execute")
        if i % 4:
            ws.send(json.dumps({"code": "print('x' * 1000)", "contextId": ctx}))
        if i % 3 == 0:
            ws.send(b"\0" * 100)
        if i % 5 == 0:
            ws._frame(8, b"\x03\xe8")
        ws.close()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        list(pool.map(one, range(100)))
    says(api, box, "print('well')", "well\n", ctx)


def test_the_offered_protocol_is_chosen(api, box):
    ws = WebSocket(api, f"/toolbox/{box}/process/interpreter/execute",
                   protocols=["X-Daytona-SDK-Version~0.218.0"])
    assert ws.status == 101
    ws.send(json.dumps({"code": "1"}))
    assert json.loads(ws.recv()[1]) == {"type": "control", "text": "completed"}
    ws.close()
