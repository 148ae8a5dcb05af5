"""The examples of the documents run as they are printed."""
import json
import os
import re
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402

# Every curl of a document must succeed, and quietly.
PRELUDE = """set -eu -o pipefail
curl() { command curl -fsS "$@"; }
"""


def blocks(name):
    """Indented blocks of a page, in order."""
    with open(f"{cli_daemon.TOP}/{name}", encoding="utf-8") as f:
        lines = f.read().splitlines()
    out, now = [], []
    for line in lines + [""]:
        if line.startswith("    "):
            now.append(line[4:])
        elif now:
            out.append("\n".join(now))
            now = []
    return out


@pytest.fixture(scope="module")
def d():
    with cli_daemon.Daemon(image=cli_daemon.DEFAULT) as daemon:
        yield daemon


def run(d, script, cwd, **env):
    out = subprocess.run(["bash", "-c", PRELUDE + script], cwd=cwd, env={
        **os.environ, "PATH": f"{cli_daemon.BUILD}:{os.environ['PATH']}",
        "DAYTONA_API_URL": d.url, "DAYTONA_API_KEY": d.key, **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert out.returncode == 0, f"{script}\n{out.stdout}\n{out.stderr}"
    return out.stdout


PAGES = ["docs/api.md"] + sorted(
    f"docs/api/{n}" for n in os.listdir(f"{cli_daemon.TOP}/docs/api") if n.endswith(".md"))


@pytest.mark.parametrize("page", PAGES)
def test_api_pages(d, tmp_path, page):
    (tmp_path / "local").write_text("hello")
    os.symlink(cli_daemon.BUSYBOX, tmp_path / "rootfs.tar.zst")
    start = (f'A=http://127.0.0.1:{d.port}; H="Authorization: Bearer {d.key}"; '
             'J="Content-Type: application/json"\n')
    name = os.path.basename(page)[:-3]
    ident = d.create(name=name, autoStopInterval=0)["id"]
    start += f"ID={ident}; T=$A/toolbox/$ID; N=$A/api/caisson/sandboxes/$ID\n"
    found = [b for b in blocks(page) if "curl" in b]
    assert found
    for block in found:
        run(d, start + "\n".join(line for line in block.splitlines()
                                 if not line.startswith(("A=", "H=", "J="))), tmp_path)
    d.request("DELETE", f"/sandbox/{ident}")
    assert len(PAGES) > 1


def test_interpreter_page_tells_the_messages(d):
    """Blocks of > and < are what the client sends and the server answers, one run each."""
    from interp_ws import run as execute
    ident = d.create(autoStopInterval=0)["id"]
    found = [b.splitlines() for b in blocks("docs/api/interpreter.md") if b.startswith("> ")]
    assert len(found) >= 2
    for lines in found:
        got = execute(d, ident, **json.loads(lines[0][2:]))
        assert got.code == 1000
        # A line of marks below the place of an error is a matter of Python's version.
        for f in got.frames:
            if "traceback" in f:
                f["traceback"] = re.sub(r"\n +[~^]+\n", "\n", f["traceback"])
        frames = got.frames[:1]
        for f in got.frames[1:]:
            if f["type"] == frames[-1]["type"] == "stdout":
                frames[-1]["text"] += f["text"]
            else:
                frames.append(f)
        assert frames == [json.loads(line[2:]) for line in lines[1:]], frames
    d.request("DELETE", f"/sandbox/{ident}")


def test_readme_tour(d, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "x").write_text("x")
    tour = next(b for b in blocks("README.md") if "caisson create" in b)
    # A terminal is what a test has not; test_cli.py has one.
    # What needs the internet, or has no end of its own, is tried elsewhere too.
    lines = [line for line in tour.splitlines()
             if not any(word in line for word in ("-t box", "git clone", "watch -r"))]
    assert "42" in run(d, "\n".join(lines), tmp_path)


def test_readme_curl(d, tmp_path):
    tour = next(b for b in blocks("README.md") if b.startswith("api="))
    jq = "jq() { sed -n 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/p' | head -n 1; }\n"
    assert "Linux" in run(d, jq + tour, tmp_path)
