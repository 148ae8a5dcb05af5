"""A repository larger than the sandbox's memory: 1 GiB of history in 512 MiB."""
import glob
import http.client
import os
import subprocess

import pytest

import cli_daemon
import gitserver
from test_git_local import ME, Git

MIB = 1 << 20


@pytest.fixture(scope="module")
def api():
    daemon = cli_daemon.Daemon(image=cli_daemon.DEFAULT, start=False)
    daemon.net = None
    daemon.connect = lambda: http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=300)
    try:
        daemon.net = gitserver.GitNet(daemon.uplink)
        daemon.start()
        yield daemon
    finally:
        if daemon.net:
            daemon.net.close()
        daemon.close()


def blob(out, mark, size):
    """size MiB that don't compress, nor differ from another blob in one place only."""
    block = os.urandom(MIB)
    out.write(b"blob\nmark :%d\ndata %d\n" % (mark, size * MIB))
    for i in range(size):
        out.write(block[i * 4096:] + block[:i * 4096] if i < 256 else block[::-1])


def make_large(net):
    """One file of 250 MiB, six of 100, twelve of 14: straight into a pack."""
    bare = f"{net.root}/open/large.git"
    net.git("init", "-q", "--bare", "-b", "main", bare)
    sizes = [("huge", 250)] + [(f"big{i}", 100) for i in range(6)] + [(f"part{i}", 14)
                                                                      for i in range(12)]
    with subprocess.Popen(["git", "-c", "core.compression=0", "-c", "core.bigFileThreshold=1m", "-c", "fastimport.unpackLimit=0",
                           "fast-import", "--quiet"], cwd=bare, stdin=subprocess.PIPE) as load:
        for i, (_, size) in enumerate(sizes, 1):
            blob(load.stdin, i, size)
        load.stdin.write(b"commit refs/heads/main\ncommitter S <s@s> 1700000000 +0000\n"
                         b"data 5\nlarge\n")
        for i, (name, _) in enumerate(sizes, 1):
            load.stdin.write(b"M 100644 :%d %s\n" % (i, name.encode()))
    assert load.returncode == 0
    packs = glob.glob(f"{bare}/objects/pack/*.pack")
    return sum(os.path.getsize(p) for p in packs)


def counts_of(api):
    """Where kills for memory are counted, of the one sandbox."""
    for group in glob.glob(f"/sys/fs/cgroup/**/caisson-{api.instance}/s*/", recursive=True):
        for name in ("memory.oom_control", "memory.events"):
            if os.path.exists(group + name) and read(group + "cgroup.procs"):
                return group + name
    raise AssertionError("no cgroup that counts")


def read(path):
    with open(path, encoding="ascii") as f:
        return f.read()


def kills(path):
    return [int(line.split()[1]) for line in read(path).splitlines()
            if line.startswith("oom_kill ")]


def test_e23_a_repository_of_1_gib_in_a_sandbox_of_512_mib(api):
    os.makedirs(f"{api.net.root}/open")
    assert make_large(api.net) > 1000 * MIB
    box = api.create(autoStopInterval=0, cpu=1, memory=0.5, disk=5)["id"]
    counts = counts_of(api)
    git = Git(api, box, "/home/daytona/large")
    git.post("clone", url=api.net.url("open/large.git"))
    assert git.files() == {} and len(git.get("history")) == 1
    git.sh("head -c 60M /dev/urandom > mine")
    git.post("add", files=["mine"])
    git.post("commit", message="mine", **ME)
    git.post("push")
    git.post("reset", mode="hard", target="HEAD~1")
    assert git.sh("ls | wc -l") == "19\n"
    assert kills(counts) == [0]
