"""Contexts over deaths: of their process, of the daemon, of the sandbox; and hostile ones."""
import signal
import time

import pytest

import cli_daemon
from interp_ws import Run, run, says
from resthelp import refused, wait_for


@pytest.fixture(scope="module")
def d():
    with cli_daemon.Daemon(image=cli_daemon.DEFAULT, on_exit="keep") as daemon:
        yield daemon


@pytest.fixture
def sb(d):
    made = d.create(autoStopInterval=0)["id"]
    yield made
    d.request("DELETE", f"/sandbox/{made}")


def context(d, sb, **fields):
    return d.post(f"/toolbox/{sb}/process/interpreter/context", fields)["id"]


def listed(d, sb):
    return {c["id"]: c["active"] for c in d.get(f"/toolbox/{sb}/process/interpreter/context")["contexts"]}


def kill_api(d):
    old = d.pids()["api"]
    d.kill("api")
    wait_for(lambda: d.pids().get("api", old) != old)
    d.wait_ready()


# ---- the process of a context ----

def test_a_context_whose_process_died_says_so_until_it_is_deleted(d, sb):
    c = context(d, sb)
    got = run(d, sb, "import os\nprint('last')\nos._exit(3)", c)
    assert got.stdout == "last\n" and got.error["name"] == "InterpreterDied", got.frames
    assert "code 3" in got.error["value"] and (got.code, got.control) == (1000, "completed")
    for _ in range(2):
        got = run(d, sb, "1", c)
        assert got.code == 1008 and "has ended" in got.reason and "code 3" in got.reason
    assert listed(d, sb) == {c: False}
    d.delete(f"/toolbox/{sb}/process/interpreter/context/{c}")
    assert listed(d, sb) == {} and "not found" in run(d, sb, "1", c).reason


def test_the_default_context_starts_anew(d, sb):
    run(d, sb, "x = 1")
    assert run(d, sb, "import os; os.kill(os.getpid(), 9)").error["value"].endswith("signal 9")
    got = run(d, sb, "print(x)")
    assert got.error["name"] == "NameError" and got.code == 1000
    run(d, sb, "import os, threading; threading.Timer(0.1, os._exit, [5]).start()")
    time.sleep(0.4)
    says(d, sb, "print(1)", "1\n")


def test_death_takes_what_the_context_has_started(d, sb):
    c = context(d, sb)
    run(d, sb, "import subprocess, os\n"
        "subprocess.Popen(['sleep', '4321'], start_new_session=True)\nos._exit(1)", c)
    wait_for(lambda: "4321" not in d.exec(sb, "ps aux")["result"])


def test_a53_memory_exhaustion_is_named(d):
    sb = d.create(autoStopInterval=0, cpu=1, memory=1, disk=3)["id"]
    c = context(d, sb)
    got = run(d, sb, "x = bytearray(3 << 29)\nfor i in range(0, len(x), 4096): x[i] = 1", c, timeout=120)
    assert got.error["name"] == "InterpreterDied" and "out of memory" in got.error["value"], got.frames
    assert str(1 << 30) in got.error["value"] and "python3" in got.error["value"]
    assert d.exec(sb, "echo well")["result"] == "well\n"
    d.delete(f"/sandbox/{sb}")


@pytest.mark.parametrize("code", [
    "import os, signal; os.kill(os.getppid(), signal.SIGKILL)",
    "import os, signal; os.kill(os.getppid(), signal.SIGTERM); import time; time.sleep(60)",
])
def test_a_context_that_kills_its_warden_ends(d, sb, code):
    c = context(d, sb)
    got = run(d, sb, code, c)
    assert got.error["name"] == "InterpreterDied" and got.code == 1000, got.frames
    wait_for(lambda: "python3" not in d.exec(sb, "ps aux")["result"])


def test_a_warden_that_is_stopped_does_not_hold_its_client_for_ever(d, sb):
    c = context(d, sb)
    began = time.monotonic()
    got = run(d, sb, "import os, signal; os.kill(os.getppid(), signal.SIGSTOP)", c, timeout=1)
    assert got.code == 4008 and time.monotonic() - began < 15


def test_a_worker_that_forges_frames_harms_itself_alone(d, sb):
    c, other = context(d, sb), context(d, sb)
    run(d, sb, "x = 1", other)
    got = run(d, sb, "import os, glob\nfor n in range(64, 1100):\n"
              "    try: os.write(n, b'\\xff' * 64)\n    except OSError: pass", c, timeout=5)
    assert got.code in (1000, 1008, 4008)
    run(d, sb, "import os\nfor p in os.listdir(f'/proc/{os.getppid()}/fd'):\n"
        "    try: os.write(os.open(f'/proc/{os.getppid()}/fd/{p}', os.O_WRONLY | os.O_NONBLOCK),"
        " b'o99999999999\\nz\\n' * 50)\n    except OSError: pass", c, timeout=5)
    run(d, sb, "1", c, timeout=5)
    says(d, sb, "print(x)", "1\n", other)
    d.delete(f"/toolbox/{sb}/process/interpreter/context/{c}")
    assert listed(d, sb) == {other: True}


# ---- the daemon ----

def test_state_survives_a_restart_and_a_kill_of_the_daemon(d, sb):
    c = context(d, sb)
    run(d, sb, "x = 'named'", c)
    run(d, sb, "x = 'default'")
    d.stop()
    d.start()
    says(d, sb, "print(x)", "named\n", c)
    says(d, sb, "print(x)", "default\n")
    kill_api(d)
    says(d, sb, "print(x)", "named\n", c)
    says(d, sb, "print(x)", "default\n")
    assert listed(d, sb) == {c: True}


def test_a_kill_in_the_middle_of_output_is_survived(d, sb):
    c = context(d, sb)
    run(d, sb, "x = 5", c)
    r = Run(d, sb, "for i in range(20): print('y' * 500_000)\nz = 6", c)
    r.next()
    kill_api(d)
    r.ws.close()
    # What nobody reads stops waiting after a while; then the run ends, and with it the wait.
    got = run(d, sb, "print(x, z)", c)
    assert (got.code, got.stdout) == (1000, "5 6\n"), (got.frames, got.reason)


def test_time_is_kept_over_a_kill_of_the_daemon(d, sb):
    c = context(d, sb)
    run(d, sb, "x = 5", c)
    r = Run(d, sb, "print('on')\nwhile True: pass", c, timeout=3).until("on")
    kill_api(d)
    r.ws.close()
    began = time.monotonic()
    says(d, sb, "print(x)", "5\n", c)
    assert time.monotonic() - began < 8


def test_shutdown_closes_with_1001(d, sb):
    c = context(d, sb)
    r = Run(d, sb, "print('on')\nimport time; time.sleep(4)\nx = 1", c).until("on")
    d.proc.send_signal(signal.SIGTERM)
    assert r.wait().code == 1001
    d.proc.wait(30)
    d.start()
    says(d, sb, "print(x)", "1\n", c)


# ---- the sandbox ----

def test_ids_of_before_a_stop_are_gone_for_that_reason(d, sb):
    c = context(d, sb)
    run(d, sb, "x = 1")
    d.post(f"/sandbox/{sb}/stop")
    refused(d, 409, "GET", f"/toolbox/{sb}/process/interpreter/context", code="SANDBOX_NOT_STARTED")
    refused(d, 410, "DELETE", f"/toolbox/{sb}/process/interpreter/context/{c}", says="stopped",
            code="SANDBOX_STOPPED")
    got = run(d, sb, "1", c)
    assert got.code == 1008 and "was stopped" in got.reason, got.reason
    d.post(f"/sandbox/{sb}/start")
    refused(d, 410, "DELETE", f"/toolbox/{sb}/process/interpreter/context/{c}", says="stopped")
    got = run(d, sb, "1", c)
    assert got.code == 1008 and "was stopped" in got.reason, got.reason
    assert listed(d, sb) == {}
    assert run(d, sb, "print(x)").error["name"] == "NameError"


def test_a_stop_ends_runs_and_says_so(d, sb):
    c = context(d, sb)
    r = Run(d, sb, "print('on')\nimport time; time.sleep(60)", c).until("on")
    queued = Run(d, sb, "1", c)
    time.sleep(0.2)
    d.post(f"/sandbox/{sb}/stop")
    assert r.wait().code == 1008 and "stopped" in r.reason, (r.frames, r.reason)
    assert queued.wait().code == 1008 and queued.reason, queued.reason


def test_an_image_without_python_is_told():
    with cli_daemon.Daemon() as small:
        sb = small.create(autoStopInterval=0, env={"PATH": "/tmp/b:/bin:/usr/bin"})["id"]
        refused(small, 422, "POST", f"/toolbox/{sb}/process/interpreter/context", {},
                says="python3", code="INTERPRETER_UNAVAILABLE")
        got = run(small, sb, "1")
        assert got.code == 1008 and "python3" in got.reason
        small.exec(sb, "mkdir /tmp/b; printf '#!/bin/sh\\necho broken >&2\\nread x\\nexit 1' > "
                       "/tmp/b/python3; chmod 755 /tmp/b/python3")
        refused(small, 422, "POST", f"/toolbox/{sb}/process/interpreter/context", {}, says="broken")
        # Over before anybody could speak to it: what it said is lost, that it ended is not.
        small.exec(sb, "printf '#!/bin/sh\\nexit 1' > /tmp/b/python3")
        refused(small, 422, "POST", f"/toolbox/{sb}/process/interpreter/context", {},
                code="INTERPRETER_UNAVAILABLE")
        assert small.get(f"/toolbox/{sb}/process/interpreter/context") == {"contexts": []}
