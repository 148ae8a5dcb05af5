"""The command line against a live daemon."""
import hashlib
import json
import os
import pty
import signal
import subprocess
import sys
import tarfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402


@pytest.fixture(scope="module")
def d():
    with cli_daemon.Daemon() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def box(d):
    name = "cli-box"
    d.cli("create", "--name", name, "--auto-stop", "0")
    yield name
    d.cli("delete", "-f", name)


def text(out):
    return out.stdout.decode()


def popen(d, *argv, **kw):
    return subprocess.Popen([f"{cli_daemon.BUILD}/caisson", *argv], env=d.cli_env(), **kw)


def alive(d, label):
    """Sandboxes of the label that are not on their way out."""
    listed = json.loads(text(d.cli("list", "-l", label, "--json")))
    return [s["id"] for s in listed if s["state"] not in ("destroying", "destroyed")]


def fails(d, code, *argv, **kw):
    out = d.cli(*argv, check=False, **kw)
    assert out.returncode == code, out
    lines = out.stderr.decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("caisson: "), out
    return lines[0]


# ---- without a daemon ----

def test_version_and_help_need_no_daemon(d):
    env = {"PATH": os.environ["PATH"], "CAISSON_URL": "http://127.0.0.1:1/api"}
    for argv in (["version"], ["--version"], ["help"], ["help", "exec"], ["exec", "--help"],
                 ["image", "--help"], ["key", "-h"], ["--json", "key", "--help"]):
        out = subprocess.run([f"{cli_daemon.BUILD}/caisson", *argv], env=env, capture_output=True,
                             check=False)
        assert out.returncode == 0 and out.stdout and not out.stderr, argv


def test_nobody_answers_is_one_line(d):
    env = {"CAISSON_URL": "http://127.0.0.1:1/api", "CAISSON_API_KEY": "x"}
    out = subprocess.run([f"{cli_daemon.BUILD}/caisson", "list"], env=env, capture_output=True,
                         check=False)
    assert out.returncode == 1
    assert out.stderr.decode() == ("caisson: list: nothing answers at http://127.0.0.1:1/api "
                                   "(is caissond running?)\n")


def test_usage_faults_are_exit_code_2(d):
    for argv in (["nonsense"], ["list", "--nope"], ["get"], ["image"], ["exec", "x"], ["cp", "a"],
                 ["create", "--cpu", "many"], ["completion", "fish"]):
        assert d.cli(*argv, check=False).returncode == 2, argv


def test_wrong_key_says_what_to_set(d):
    env = {**d.cli_env(), "CAISSON_API_KEY": "dtn_" + "0" * 64}
    out = subprocess.run([f"{cli_daemon.BUILD}/caisson", "list"], env=env, capture_output=True,
                         check=False)
    assert out.returncode == 1 and b"CAISSON_API_KEY" in out.stderr


def test_address_and_key_fall_back_each_by_itself(d):
    daytona = {"DAYTONA_API_URL": "http://127.0.0.1:1/api", "DAYTONA_API_KEY": "wrong"}
    run = lambda **e: subprocess.run(  # noqa: E731
        [f"{cli_daemon.BUILD}/caisson", "list"], env=e, capture_output=True, check=False).returncode
    assert run(DAYTONA_API_URL=d.url, DAYTONA_API_KEY=d.key) == 0
    assert run(DAYTONA_API_URL=d.url, CAISSON_API_KEY=d.key) == 0
    assert run(CAISSON_URL=d.url, DAYTONA_API_KEY=d.key) == 0
    assert run(**daytona, CAISSON_URL=d.url, CAISSON_API_KEY=d.key) == 0, "CAISSON_ comes first"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_is_a_script(d, shell):
    script = d.cli("completion", shell).stdout
    assert b"image" in script and b"--label" in script
    subprocess.run(["bash", "-n"], input=script, check=True)


# ---- life of a sandbox ----

def test_life_by_name(d):
    sandbox = text(d.cli("create", "-n", "life", "-l", "a=b", "-e", "X=1", "--auto-stop", "2h")).strip()
    assert len(sandbox) == 36
    got = json.loads(text(d.cli("get", "life", "--json")))
    assert got["id"] == sandbox and got["state"] == "started"
    assert got["labels"] == {"a": "b"} and got["env"] == {"X": "1"}
    assert got["autoStopInterval"] == 120
    assert "started" in text(d.cli("logs", "life"))
    assert text(d.cli("stop", "life")) == "life\n"
    assert json.loads(text(d.cli("logs", "life", "-j")))[-1]["state"] == "stopped"
    assert text(d.cli("start", "life")) == "life\n"
    assert text(d.cli("exec", "life", "sh", "-c", "echo $X")) == "1\n"
    listed = json.loads(text(d.cli("list", "-l", "a=b", "--json")))
    assert [s["id"] for s in listed] == [sandbox]
    table = text(d.cli("list", "--name", "LI"))
    assert table.splitlines()[0].split()[:3] == ["NAME", "ID", "STATE"] and sandbox in table
    d.cli("delete", "--wait", "life")
    fails(d, 1, "get", "life")
    assert alive(d, "a=b") == []


def test_stop_of_an_ephemeral_sandbox_says_that_it_is_deleted(d):
    for force in ([], ["--force"]):
        d.cli("create", "-n", "eph", "--auto-delete", "0")
        assert text(d.cli("stop", *force, "eph")) == "eph was deleted, as it is ephemeral\n"
        d.cli("create", "-n", "eph", "--auto-delete", "0")
        assert json.loads(text(d.cli("stop", "-j", *force, "eph")))[0]["state"] == "destroyed"


def test_many_at_once_and_one_missing(d):
    d.cli("create", "-n", "m1")
    d.cli("create", "-n", "m2")
    out = d.cli("delete", "m1", "nowhere", "m2", check=False)
    assert out.returncode == 1 and text(out) == "m1\nm2\n"
    assert out.stderr.decode().count("\n") == 1 and b"nowhere" in out.stderr
    assert d.cli("delete", "-f", "nowhere").returncode == 0


def test_taken_name_is_told(d, box):
    assert box in fails(d, 1, "create", "--name", box)


# ---- exec ----

def test_exit_code_and_streams_are_the_programs(d, box):
    out = d.cli("exec", box, "--", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert (out.returncode, out.stdout, out.stderr) == (7, b"out\n", b"err\n")


def test_arguments_are_not_shell_text(d, box):
    assert text(d.cli("exec", box, "echo", "$HOME; a  b")) == "$HOME; a  b\n"
    assert text(d.cli("exec", "-s", box, "echo a; echo $((1+1))")) == "a\n2\n"


def test_options_of_an_exec(d, box):
    assert text(d.cli("exec", "-w", "/tmp", box, "pwd")) == "/tmp\n"
    assert text(d.cli("exec", "-e", "A=b c", box, "sh", "-c", "echo $A")) == "b c\n"
    assert text(d.cli("exec", "-u", "root", box, "id", "-u")) == "0\n"
    assert text(d.cli("exec", "-u", "1234:99", box, "id", "-u")) == "1234\n"


def test_what_cannot_run_is_told_as_a_shell_would(d, box):
    fails(d, 125, "exec", "nowhere", "true")
    fails(d, 127, "exec", box, "/no/such/program")
    fails(d, 126, "exec", box, "/etc/passwd")


def test_time_limit_is_124(d, box):
    began = time.monotonic()
    out = d.cli("exec", "--timeout", "0.5s", box, "sleep", "60", check=False)
    assert out.returncode == 124 and time.monotonic() - began < 5
    assert b"time limit" in out.stderr


def test_killed_program_is_128_and_signal(d, box):
    assert d.cli("exec", box, "sh", "-c", "kill -9 $$", check=False).returncode == 137


def test_stdin_is_piped_through(d, box):
    data = os.urandom(8 << 20)
    out = d.cli("exec", box, "sha256sum", input=data)
    assert text(out).split()[0] == hashlib.sha256(data).hexdigest()
    assert d.cli("exec", box, "cat", input=data).stdout == data
    assert text(d.cli("exec", box, "wc", "-c", input=b"")).strip() == "0"


def test_program_that_reads_nothing_ends_all_the_same(d, box):
    assert d.cli("exec", box, "true", input=b"x" * (4 << 20)).returncode == 0


def test_a51_open_fifo_as_stdin_does_not_hold_the_exit(d, box):
    r, w = os.pipe()
    try:
        out = subprocess.run([f"{cli_daemon.BUILD}/caisson", "exec", box, "echo", "hi"],
                             env=d.cli_env(), stdin=r, capture_output=True, timeout=10, check=True)
        assert out.stdout == b"hi\n"
    finally:
        os.close(r)
        os.close(w)


def test_large_output_comes_whole(d, box):
    out = d.cli("exec", box, "sh", "-c", "head -c 52428800 /dev/zero | tr '\\0' x")
    assert len(out.stdout) == 50 << 20 and out.stdout.count(b"x") == 50 << 20


def test_reader_that_goes_away_ends_the_program(d, box):
    p = popen(d, "exec", box, "yes", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.read(4) == b"y\ny\n"
    p.stdout.close()
    assert p.wait(10) == 141
    deadline = time.monotonic() + 10
    while "yes" in text(d.cli("exec", box, "ps")).split():
        assert time.monotonic() < deadline, "the program runs on"
        time.sleep(0.1)


@pytest.mark.parametrize("sig,name", [(signal.SIGINT, "INT"), (signal.SIGTERM, "TERM")])
def test_signals_are_forwarded(d, box, sig, name):
    script = f"trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.1; done"
    p = popen(d, "exec", box, "sh", "-c", script, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(sig)
    assert p.stdout.readline() == b"got\n"
    assert p.wait(10) == 9


def test_third_interrupt_gives_up(d, box):
    p = popen(d, "exec", box, "sh", "-c", "trap '' INT; echo ready; sleep 100; sleep 100; sleep 100",
              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    for _ in range(3):
        p.send_signal(signal.SIGINT)
        time.sleep(0.2)
    assert p.wait(10) == 130


def read_until(fd, want, seconds=10):
    got, deadline = b"", time.monotonic() + seconds
    while want not in got and time.monotonic() < deadline:
        try:
            got += os.read(fd, 4096)
        except OSError:
            break
    assert want in got, got
    return got


def test_terminal_is_a_terminal_and_follows_its_size(d, box):
    import fcntl
    import struct
    import termios
    master, slave = pty.openpty()
    size = lambda r, c: fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", r, c, 0, 0))  # noqa: E731
    size(33, 101)
    p = popen(d, "exec", "-t", box, "sh", stdin=slave, stdout=slave, stderr=slave)
    os.write(master, b"tty; stty size; echo E''ND1\n")
    got = read_until(master, b"END1")
    assert b"/dev/pts/" in got and b"33 101" in got
    size(20, 60)
    p.send_signal(signal.SIGWINCH)
    time.sleep(0.3)
    os.write(master, b"stty size; echo E''ND2\n")
    assert b"20 60" in read_until(master, b"END2")
    os.write(master, b"exit 5\n")
    assert p.wait(10) == 5
    os.close(master)
    os.close(slave)


# ---- run ----

def test_run_passes_the_code_and_leaves_nothing(d):
    out = d.cli("run", "-l", "run=1", "--", "sh", "-c", "cat; exit 4", input=b"in", check=False)
    assert (out.returncode, out.stdout) == (4, b"in")
    assert alive(d, "run=1") == []


def test_interrupted_run_leaves_nothing(d):
    p = popen(d, "run", "-l", "run=2", "--", "sh", "-c", "echo ready; sleep 100",
              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) != 0
    assert alive(d, "run=2") == []


# ---- cp ----

def test_file_goes_in_and_out(d, box, tmp_path):
    src = tmp_path / "naïve file.bin"
    src.write_bytes(os.urandom(3 << 20))
    src.chmod(0o755)
    d.cli("cp", str(src), f"{box}:/tmp/")
    assert text(d.cli("exec", box, "stat", "-c", "%a", "/tmp/naïve file.bin")) == "755\n"
    d.cli("cp", f"{box}:/tmp/naïve file.bin", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == src.read_bytes()
    assert (tmp_path / "back").stat().st_mode & 0o777 == 0o755


def test_stdin_and_stdout_as_files(d, box):
    d.cli("cp", "-", f"{box}:/tmp/from-stdin", input=b"hello")
    assert d.cli("cp", f"{box}:/tmp/from-stdin", "-").stdout == b"hello"


def test_empty_file(d, box, tmp_path):
    (tmp_path / "e").touch()
    d.cli("cp", str(tmp_path / "e"), f"{box}:/tmp/e")
    d.cli("cp", f"{box}:/tmp/e", str(tmp_path / "e2"))
    assert (tmp_path / "e2").read_bytes() == b""


def test_folders_go_in_and_out(d, box, tmp_path):
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "empty").mkdir()
    (tree / "a" / "x").write_text("x")
    (tree / "a" / "b" / "y").write_text("y")
    d.cli("cp", str(tree), f"{box}:/tmp/copy")
    d.cli("cp", f"{box}:/tmp/copy", str(tmp_path / "back"))
    back = tmp_path / "back"
    assert (back / "a" / "b" / "y").read_text() == "y" and (back / "empty").is_dir()
    d.cli("cp", str(tree), f"{box}:/tmp/copy")
    assert text(d.cli("exec", box, "cat", "/tmp/copy/tree/a/x")) == "x"


def test_links_go_in_and_out_as_links(d, box, tmp_path):
    links = {"plain": "a/x", "it's a \"link\" $HOME": "no/such ' target; exit", "-dash": "-x",
             "absolute": "/etc/passwd", "to-dir": "a", "naïve": "ü", "new\nline": "b\nc"}
    links.update({f"many{i}": f"a/{i}" for i in range(150)})
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "x").write_text("x")
    for name, target in links.items():
        (tree / name).symlink_to(target)
    for remote in ("/tmp/links", "relative-links"):
        out = json.loads(text(d.cli("cp", "-j", str(tree), f"{box}:{remote}")))
        assert (out["files"], out["links"], out["skipped"]) == (1, len(links), 0)
        back = tmp_path / f"back-{os.path.basename(remote)}"
        d.cli("cp", f"{box}:{remote}", str(back))
        assert {p.name: os.readlink(p) for p in back.iterdir() if p.is_symlink()} == links
    d.cli("cp", f"{box}:/tmp/links/plain", str(tmp_path / "followed"))
    assert (tmp_path / "followed").read_text() == "x"
    # Again over what is there, on both sides.
    (tree / "plain").unlink()
    (tree / "plain").symlink_to("other")
    d.cli("cp", str(tree) + "/.", f"{box}:/tmp/links")
    assert text(d.cli("exec", box, "readlink", "/tmp/links/plain")) == "other\n"
    (tmp_path / "back-links").rename(tmp_path / "links")
    d.cli("cp", f"{box}:/tmp/links", str(tmp_path))
    assert os.readlink(tmp_path / "links" / "plain") == "other"


def test_link_of_an_earlier_copy_leads_nowhere(d, box, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "t").symlink_to(tmp_path / "outside")
    d.cli("exec", box, "sh", "-c", "mkdir -p /tmp/ear/t/t; echo > /tmp/ear/t/f; echo > /tmp/ear/t/t/f")
    fails(d, 1, "cp", f"{box}:/tmp/ear/t", str(tmp_path / "in"))
    assert list((tmp_path / "outside").iterdir()) == []


def test_what_is_left_out_is_named_and_fails(d, box, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "x").write_text("x")
    os.mkfifo(tree / "fifo")
    (tree / "dir").symlink_to("x")
    d.cli("exec", box, "mkdir", "-p", "/tmp/left/dir")
    out = d.cli("cp", f"{tree}/.", f"{box}:/tmp/left", check=False)
    assert out.returncode == 1 and text(d.cli("exec", box, "cat", "/tmp/left/x")) == "x"
    lines = sorted(out.stderr.decode().splitlines())
    assert lines[0] == "caisson: cp: 2 left out, the rest is copied"
    assert lines[1].startswith("caisson: cp: left out /tmp/left/dir (")
    assert lines[2] == "caisson: cp: left out /tmp/left/fifo (a special file)"
    d.cli("exec", box, "sh", "-c", "mkdir /tmp/p; for i in $(seq 30); do mkfifo /tmp/p/$i; done")
    out = d.cli("cp", f"{box}:/tmp/p", str(tmp_path), check=False)
    lines = out.stderr.decode().splitlines()
    assert out.returncode == 1 and len(lines) == 22 and "left out 10 more" in lines[20]


def test_b20_holes_stay_holes_both_ways(d, box, tmp_path):
    tree = tmp_path / "tree"
    (tree / "ü d").mkdir(parents=True)
    for name, places in (("f", (0, 5 << 20, (40 << 20) - 3)), ("ü d/tail", (3 << 20,)), ("none", ())):
        with open(tree / name, "wb") as f:
            for at in places:
                f.seek(at)
                f.write(b"xyz")
            f.truncate(40 << 20)
        os.chmod(tree / name, 0o640)
    d.cli("cp", str(tree), f"{box}:/tmp/sparse")
    for name in ("f", "ü d/tail", "none"):
        blocks, size, mode = text(d.cli("exec", box, "stat", "-c", "%b %s %a", f"/tmp/sparse/{name}")).split()
        assert int(blocks) < 512 and (size, mode) == (str(40 << 20), "640"), name
    d.cli("cp", f"{box}:/tmp/sparse", str(tmp_path / "back"))
    for name in ("f", "ü d/tail", "none"):
        back = tmp_path / "back" / name
        assert back.read_bytes() == (tree / name).read_bytes()
        assert back.stat().st_blocks < 512 and back.stat().st_mode & 0o777 == 0o640
    d.cli("exec", box, "rm", "-r", "/tmp/sparse")


def test_copy_faults_are_one_line(d, box, tmp_path):
    fails(d, 1, "cp", f"{box}:/no/such", str(tmp_path))
    fails(d, 1, "cp", "/no/such", f"{box}:/tmp/")
    fails(d, 1, "cp", f"{box}:/etc/passwd", "/no/such/place/here")
    fails(d, 2, "cp", "a", "b")
    assert not list(tmp_path.glob(".caisson-*"))


# ---- images and keys ----

def unpacked(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    with tarfile.open(cli_daemon.BUSYBOX) as t:
        t.extractall(root)
    (root / "etc" / "mine").write_text("mine\n")
    return root


def test_image_of_a_folder_and_of_a_tar(d, tmp_path):
    root = unpacked(tmp_path)
    assert "files" in text(d.cli("image", "import", "from-dir", str(root)))
    subprocess.run(["tar", "-C", str(root), "-czf", str(tmp_path / "r.tgz"), "."], check=True)
    got = json.loads(text(d.cli("image", "import", "from-tar", str(tmp_path / "r.tgz"), "--json")))
    assert got["name"] == "from-tar" and got["files"] > 10
    names = [i["name"] for i in json.loads(text(d.cli("image", "list", "--json")))]
    assert {"from-dir", "from-tar"} <= set(names)
    assert "from-dir" in text(d.cli("image", "list"))
    for name in ("from-dir", "from-tar"):
        assert text(d.cli("run", "--snapshot", name, "--", "cat", "/etc/mine")) == "mine\n"
        d.cli("image", "delete", name)
    fails(d, 1, "create", "--snapshot", "from-dir")


def test_image_that_is_no_tar_is_told(d, tmp_path):
    (tmp_path / "junk").write_bytes(os.urandom(100000))
    fails(d, 1, "image", "import", "junk", str(tmp_path / "junk"))
    fails(d, 1, "image", "import", "none", str(tmp_path / "missing"))


def test_keys(d):
    key = text(d.cli("key", "create", "ci", "--expires", "1h")).strip()
    assert key.startswith("dtn_") and len(key) == 68
    env = {"CAISSON_URL": d.url, "CAISSON_API_KEY": key}
    run = lambda: subprocess.run(  # noqa: E731
        [f"{cli_daemon.BUILD}/caisson", "list"], env=env, capture_output=True, check=False)
    assert run().returncode == 0
    listed = text(d.cli("key", "list"))
    assert "ci" in listed and key not in listed
    d.cli("key", "delete", "ci")
    assert run().returncode == 1


def test_key_file_option(d, tmp_path):
    (tmp_path / "key").write_text(d.key + "\n")
    env = {"CAISSON_URL": d.url, "CAISSON_API_KEY": "wrong"}
    subprocess.run([f"{cli_daemon.BUILD}/caisson", "--key-file", str(tmp_path / "key"), "list"],
                   env=env, capture_output=True, check=True)
