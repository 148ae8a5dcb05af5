"""The interpreter's runner alone, under this machine's python3: what code may do to it."""
import os
import signal
import time

import pytest

from resthelp import wait_for
from interp_runner import Lost, Runner


@pytest.fixture
def r(tmp_path):
    runner = Runner(cwd=tmp_path)
    yield runner
    runner.close()


def ok(got, out="", err=""):
    assert got["status"] == "completed" and got["error"] is None, got
    assert (got["out"].decode(), got["err"].decode()) == (out, err)


def test_state_lives_from_run_to_run(r):
    ok(r.run("x = 1\ndef f(): return x"))
    ok(r.run("x += 1\nprint(f())"), "2\n")


def test_an_error_has_name_text_and_traceback_of_the_code_alone(r):
    r.run("def g():\n    raise ValueError('bad \u2615')")
    got = r.run("print('a')\ng()")
    name, text, trace = got["error"]
    assert (name, text, got["status"]) == ("ValueError", "bad \u2615", "completed")
    assert "line 2, in g" in trace and "raise ValueError('bad" in trace, trace
    assert "caisson" not in trace and "exec(" not in trace
    ok(r.run("print(1)"), "1\n")


@pytest.mark.parametrize("code,name", [
    ("x = (", "SyntaxError"), ("exit(4)", "SystemExit"), ("import nothing", "ModuleNotFoundError"),
    ("class E(Exception):\n    def __str__(self): raise KeyError\nraise E", "E"),
    ("raise Exception('x' * 10_000_000)", "Exception"), ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("input()", "EOFError"), ("def f(): f()\nf()", "RecursionError"),
    ("raise ValueError('a\\0b')", "ValueError"), ("print('\\ud800', flush=True, file=open('/dev/full', 'w'))",
                                                  "UnicodeEncodeError"),
])
def test_any_error_is_reported_and_survived(r, code, name):
    got = r.run(code)
    assert got["error"][0] == name, got
    assert len(got["error"]) == 3
    ok(r.run("print('well')"), "well\n")


def test_output_of_both_streams_keeps_its_order(r):
    code = "import sys\nfor i in range(50):\n    print(i)\n    print(i, file=sys.stderr)"
    mixed = [(k, int(line)) for k, data in r.run(code)["mixed"] for line in data.split()]
    assert mixed == [(k, i) for i in range(50) for k in "oe"]


def test_programs_are_captured_in_order(r):
    got = r.run("import os, subprocess, sys\nprint('a', end='')\nsubprocess.run('echo b', shell=True)\n"
                "print('c', end='')\nos.system('echo d >&2')\nprint('e')")
    assert got["mixed"] == [("o", b"ab\n"), ("o", b"c"), ("e", b"d\n"), ("o", b"e\n")] or \
        b"".join(d for _, d in got["mixed"]) == b"ab\ncd\ne\n", got["mixed"]


def test_bytes_that_are_no_text_come_as_they_are(r):
    got = r.run("import os\nos.write(1, b'caf\\xc3'); os.write(1, b'\\xa9\\xff'); print('\\udc80')")
    assert got["out"] == b"caf\xc3\xa9\xff\x80\n"


def test_variables_of_a_run_are_gone_after_it(r):
    ok(r.run("import os; print(os.environ['A'], os.environ['HOME'])", env=["A=1", "HOME=/x=y"]), "1 /x=y\n")
    ok(r.run("print(os.environ.get('A'), os.environ['HOME'])"), f"None {os.environ['HOME']}\n")
    r.run("os.environ['A'] = 'mine'", env=["A=1"])
    ok(r.run("print(os.environ['A'])"), "mine\n")


def test_interrupt_stops_the_code_and_keeps_the_state(r):
    r.run("x = 5")
    got = r.run("print('on', flush=True)\nwhile True: pass",
                seen=lambda g: r.interrupt())
    assert got["status"] == "interrupted" and got["error"][0] == "KeyboardInterrupt"
    ok(r.run("print(x)"), "5\n")


def test_interrupt_reaches_programs_of_this_run_and_no_others(r):
    got = r.run("import subprocess, os, time\nold = subprocess.Popen(['sleep', '60'])\nprint(old.pid)")
    time.sleep(0.05)
    began = time.monotonic()
    got = r.run("print(1)\nos.system('echo 2; exec sleep 60')",
                seen=lambda g: r.interrupt() if b"2" in g["out"] else None)
    assert time.monotonic() - began < 5 and got["status"] in ("completed", "interrupted"), got
    ok(r.run("print(old.poll())\nold.kill()"), "None\n")


def test_an_interrupt_without_a_run_does_nothing(r):
    for _ in range(20):
        r.interrupt()
        ok(r.run("print(1)"), "1\n") if r.run("y = 1")["status"] == "completed" else None
    assert r.attach() == "idle"


def test_interrupts_at_any_moment_lose_no_end(r):
    r.run("z = 0")
    for i in range(150):
        nonce = r.send_run("z += 1")
        time.sleep(i % 10 / 20000)
        r.interrupt()
        assert r.finish(nonce)["status"] in ("completed", "interrupted")
    ok(r.run("print('well')"), "well\n")


def test_timeout_interrupts_and_the_state_lives(r):
    r.run("x = 5")
    began = time.monotonic()
    got = r.run("import time\ntime.sleep(60)", timeout=0.3)
    assert got["status"] == "timeout" and 0.25 < time.monotonic() - began < 2
    ok(r.run("print(x)"), "5\n")


def test_code_that_does_not_stop_is_killed_after_two_seconds(r):
    began = time.monotonic()
    got = r.run("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('x')\n"
                "while True: pass", timeout=0.3)
    assert got["status"] == "timeout signal 9" and 2.2 < time.monotonic() - began < 5
    assert got["out"] == b"x\n"
    assert r.proc.wait(5) == 137


@pytest.mark.parametrize("code,how", [
    ("os._exit(3)", "exit 3"), ("os.kill(os.getpid(), 9)", "signal 9"), ("os.abort()", "signal 6"),
    ("import ctypes; ctypes.string_at(1)", "signal 11"),
])
def test_a_dead_worker_says_how_and_shows_what_it_printed(r, code, how):
    got = r.run(f"import os\nprint('last', flush=True)\n{code}")
    assert got["status"] == how and got["out"] == b"last\n", got
    r.proc.wait(5)


def test_death_between_runs_ends_the_runner(r):
    r.run("import os, threading\nthreading.Timer(0.1, os._exit, [5]).start()")
    assert r.proc.wait(5) == 5
    with pytest.raises((Lost, BrokenPipeError)):
        r.run("1")


@pytest.mark.parametrize("code", [
    "import os; os.closerange(0, 4096)", "import sys; sys.stdout.close(); sys.stderr.close()",
    "import os; os.close(1); os.close(2); f = open('/dev/null'); g = open('/dev/null')",
    "import os; os.dup2(os.open('/dev/null', os.O_WRONLY), 1)", "import sys; sys.stdout = None",
    "import sys; del sys.stderr", "import os; os.set_blocking(1, False)",
    "import os; os.closerange(3, 4096); l = [os.open('/dev/null', 0) for _ in range(1100)]",
    "import sys; del sys.modules['__main__']", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "import threading, os; threading.Timer(0.02, os.closerange, [3, 4096]).start()",
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
    "import os; os.chdir('/'); os.environ.clear(); import builtins; del builtins.open",
])
def test_code_that_breaks_its_own_process_is_mended(r, code):
    r.run("x = 5")
    r.run(code)
    time.sleep(0.05)
    got = r.run("import sys\nprint(x)\nprint('e', file=sys.stderr)")
    assert (got["status"], got["error"], got["out"], got["err"]) == ("completed", None, b"5\n", b"e\n"), got
    assert r.run("while True: pass", timeout=0.2)["status"] == "timeout"
    ok(r.run("print(x)"), "5\n")


def test_forked_children_that_come_back_end(r):
    got = r.run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('p' if pid else 'c')")
    ok(got, "c\np\n")
    got = r.run("pid = os.fork()\nif not pid: 1/0\nprint(os.waitpid(pid, 0)[1] >> 8)")
    assert got["out"] == b"1\n" and b"ZeroDivisionError" in got["err"], got
    ok(r.run("print(1)"), "1\n")


def test_many_processes_and_threads_print_without_harm(r):
    got = r.run("import multiprocessing as m, threading\n"
                "def f(n): print(str(n) * 1000, flush=True)\n"
                "c = m.get_context('fork')\n"
                "p = [c.Process(target=f, args=(i,)) for i in range(8)]\n"
                "t = [threading.Thread(target=f, args=(i,)) for i in range(8)]\n"
                "for x in p + t: x.start()\nfor x in p + t: x.join()")
    assert got["status"] == "completed" and len(got["out"]) == 16 * 1001, got["status"]


def test_what_is_printed_between_runs_comes_with_the_next(r):
    ok(r.run("import subprocess\nsubprocess.Popen('sleep 0.1; echo late', shell=True)"))
    time.sleep(0.4)
    ok(r.run("print('now')"), "late\nnow\n")


def test_a_chatty_background_is_bounded_and_its_loss_is_told(r):
    r.run("import subprocess\np = subprocess.Popen('yes')")
    time.sleep(0.5)
    got = r.run("p.kill(); p.wait(); print('end')")
    assert got["status"] == "completed" and got["gaps"] and int(got["gaps"][0].split()[1]) > 0
    assert len(got["out"]) < 8 << 20 and got["out"].endswith(b"end\n")


def test_200_mb_come_whole(r):
    got = r.run("import sys\nfor i in range(200): sys.stdout.write('x' * 1_000_000)", seconds=120)
    assert got["status"] == "completed" and len(got["out"]) == 200_000_000


def test_a_reader_that_waits_makes_the_code_wait_and_loses_nothing(r):
    nonce = r.send_run("print('x' * 20_000_000)")
    for _ in range(3):
        time.sleep(0.2)
        r.write(b"alive\n")
    got = r.finish(nonce)
    assert len(got["out"]) == 20_000_001 and got["status"] == "completed"


# ---- daemons that come and go ----

def test_a_new_daemon_finds_its_place_in_the_middle_of_output(r):
    r.run("x = 5")
    r.send_run("for i in range(300000): print('y' * 50)")
    r.more(5)  # the old one has read a part, somewhere in a frame
    r.buf.clear()
    state = r.attach()
    if state == "busy":
        kind, payload = r.frame()
        assert kind == b"d" and payload.endswith(b"completed"), (kind, payload)
    ok(r.run("print(x)"), "5\n")


def test_half_a_line_of_a_dead_daemon_is_refused(r):
    for half in (b"run abc 1000 4000 QUJD", b"run abc", b"run abc x 4 QUJD", b"atta", b"run a 1 -5 QQ==",
                 b"\xff\0" * 50):
        r.write(half)
        assert r.attach() == "idle"
    ok(r.run("print(1)"), "1\n")


def test_code_goes_on_when_its_reader_leaves(r, tmp_path):
    r.send_run("import time\nfor i in range(100): print('z' * 100_000)\nopen('done', 'w').close()")
    r.write(b"detach\n")
    wait_for((tmp_path / "done").exists)
    assert r.attach() == "idle"
    ok(r.run("print(i)"), "99\n")


def test_time_is_kept_without_a_reader(r):
    r.send_run("while True: pass", timeout=0.3)
    r.write(b"detach\n")
    time.sleep(0.7)
    assert r.attach() == "idle"


def test_the_end_of_the_agent_ends_all(r):
    pid = int(r.run("import os; print(os.getpid())")["out"])
    r.proc.stdin.close()
    assert r.proc.wait(5) == 0
    with pytest.raises(ProcessLookupError):
        wait_for(lambda: os.kill(pid, 0))
    r.proc.stdin = open(os.devnull, "wb")


def test_a_killed_warden_takes_the_worker_with_it(r):
    pid = int(r.run("import os; print(os.getpid())")["out"])
    os.kill(r.proc.pid, signal.SIGKILL)
    r.proc.wait(5)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}") or
             open(f"/proc/{pid}/stat", encoding="ascii").read().rpartition(")")[2].split()[0] == "Z")


def test_files_beside_the_code_do_not_shadow_the_runner(tmp_path):
    for name in ("select", "struct", "signal", "traceback", "linecache", "base64", "binascii"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('shadow')")
    (tmp_path / "mine.py").write_text("value = 7")
    runner = Runner(cwd=tmp_path)
    ok(runner.run("import mine; print(mine.value)"), "7\n")
    runner.close()


def test_a_second_call_is_quick(r):
    r.run("x = 0")
    times = []
    for _ in range(100):
        began = time.monotonic()
        r.run("x += 1")
        times.append(time.monotonic() - began)
    assert sorted(times)[50] < 0.005
