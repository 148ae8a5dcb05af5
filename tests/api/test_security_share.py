"""What one sandbox takes of the kernel is missing in no other, nor on the host."""
import ctypes
import os
import subprocess

import pytest

import cli_daemon
import resthelp

HOG = f"{cli_daemon.TOP}/tests/lib/hog.c"


def program(api, box, source, path):
    """Compile source and put it into the sandbox."""
    out = f"{api.base}/{os.path.basename(path)}"
    subprocess.run([os.environ.get("CC", "cc"), "-O1", "-static", "-D_GNU_SOURCE", "-o", out,
                    source, "-lrt"], check=True)
    with open(out, "rb") as f:
        body, kind = resthelp.form([("file", "x", f.read())])
    api.post(f"/toolbox/{box}/files/upload-v2?path={path}", body, headers={"Content-Type": kind})
    api.post(f"/toolbox/{box}/files/permissions?path={path}&mode=755", b"")


def counts(text):
    return {k: int(v) for k, v in (line.split() for line in text.splitlines())}


def test_a_hog_leaves_others_their_share(api, make):
    hog, other = make()["id"], make()["id"]
    for box in (hog, other):
        program(api, box, HOG, "/tmp/hog")
    alone = counts(api.exec(other, "/tmp/hog", timeout=20)["result"])
    assert alone["inotify"] > 0 and alone["timers"] > 0 and alone["queues"] > 0, alone
    api.exec(hog, "mkfifo /tmp/hold; (sleep 60 >/tmp/hold &) ; "
                  "/tmp/hog hold </tmp/hold >/tmp/out & "
                  "until grep -q queues /tmp/out; do sleep 0.05; done", timeout=20)
    assert counts(api.exec(hog, "cat /tmp/out")["result"]) == alone
    assert counts(api.exec(other, "/tmp/hog", timeout=20)["result"]) == alone
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    os.close(fd)


def number(path):
    """0 of a group that has just gone."""
    try:
        with open(path, encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return 0


def tcp_peak(api):
    """Bytes, where the first hierarchy's memory controller counts them."""
    top = f"/sys/fs/cgroup/memory/caisson-{api.instance}"
    if not os.path.exists(f"{top}/memory.kmem.tcp.limit_in_bytes"):
        pytest.skip("here socket buffers count as memory")
    return max(number(f"{e.path}/memory.kmem.tcp.max_usage_in_bytes")
               for e in os.scandir(top) if e.is_dir())


def test_socket_buffers_are_bounded(api, make):
    """Where they aren't counted as memory, a sandbox could take all that TCP has on the host."""
    box = make()["id"]
    tcp_peak(api)
    program(api, box, HOG, "/tmp/hog")
    taken = counts(api.exec(box, "/tmp/hog tcp", timeout=20)["result"])["tcp"]
    assert 1 <= taken < 200, taken
    # Each socket may go a little over.
    assert 0 < tcp_peak(api) <= 160 << 20
    # And TCP still works inside.
    out = api.exec(box, "(nc -l -p 7777 -e /bin/echo hi &); sleep 0.2; nc 127.0.0.1 7777", timeout=10)
    assert out["result"] == "hi\n", out
