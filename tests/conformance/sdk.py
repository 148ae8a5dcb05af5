"""Runs one official SDK, as published, suite after suite against a daemon of its own.

    run-python, run-typescript [AREA...]

The SDKs are installed once below build/ at the versions pinned in this folder. A suite is a process
of its own, prints a line for each assertion that fails and closes with "N passed, N failed"; the
last line here is their sum.
"""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import cli_daemon  # noqa: E402

HOME = f"{cli_daemon.TOP}/build/conformance"
SUITES = ["suite", "suite_process", "suite_pty", "suite_interp", "suite_charts", "suite_files",
          "suite_urls", "suite_git", "suite_lsp"]
SUITE_S = 300


def digest(*names):
    h = hashlib.sha256()
    for name in names:
        with open(f"{HERE}/{name}", "rb") as f:
            h.update(f.read())
    return h.hexdigest()


def installed(where, want):
    try:
        with open(f"{where}/.done", encoding="ascii") as f:
            return f.read() == want
    except OSError:
        return False


def install(where, want, steps):
    """Anew when the pins changed or an install was cut short."""
    if installed(where, want):
        return
    shutil.rmtree(where, ignore_errors=True)
    os.makedirs(where)
    for argv, cwd in steps:
        out = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)
        if out.returncode != 0:
            sys.exit(f"conformance: {' '.join(argv[:4])} failed: {out.stderr.strip()[-500:]}")
    with open(f"{where}/.done", "w", encoding="ascii") as f:
        f.write(want)


def python_program():
    venv = f"{HOME}/venv"
    python = f"{venv}/bin/python"
    install(venv, digest("requirements.txt"), [
        (["/usr/bin/python3", "-m", "venv", venv], HERE),
        ([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r",
          f"{HERE}/requirements.txt"], HERE)])
    return lambda suite: [python, f"{HERE}/{suite}.py"]


def typescript_program():
    node = f"{HOME}/node"
    os.makedirs(node, exist_ok=True)
    want = digest("package.json", "package-lock.json")
    if not installed(node, want):
        shutil.rmtree(node, ignore_errors=True)
        os.makedirs(node)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(f"{HERE}/{name}", node)
        out = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=node,
                             capture_output=True, text=True, check=False)
        if out.returncode != 0:
            sys.exit(f"conformance: npm ci failed: {out.stderr.strip()[-500:]}")
        with open(f"{node}/.done", "w", encoding="ascii") as f:
            f.write(want)
    # Imports are looked for beside the program.
    for path in glob.glob(f"{HERE}/*.mjs"):
        shutil.copy(path, node)
    return lambda suite: ["node", f"{node}/{suite}.mjs"]


def run(argv, d):
    """Exit code and counts of one suite; what it says is passed on."""
    # An empty directory: the SDKs read .env files of the one they run in.
    with tempfile.TemporaryDirectory(prefix="caisson-sdk-") as cwd:
        env = {"PATH": os.environ["PATH"], "HOME": cwd, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE":
               "1", "DAYTONA_API_URL": d.url, "DAYTONA_API_KEY": d.key, "CAISSON_TESTS": HERE}
        try:
            out = subprocess.run(argv, cwd=cwd, env=env, check=False, text=True, timeout=SUITE_S,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired as e:
            text = e.stdout.decode() if isinstance(e.stdout, bytes) else e.stdout or ""
            print(f"{text}\nFAIL: not done after {SUITE_S} s")
            return 1, 0, 1
    lines = out.stdout.splitlines()
    print("\n".join(lines[:-1] if lines else []), end="\n" if len(lines) > 1 else "")
    got = re.match(r"(\d+) passed, (\d+) failed$", lines[-1] if lines else "")
    if not got:
        print(lines[-1] if lines else "FAIL: it said nothing")
        return 1, 0, 1
    passed, failed = map(int, got.groups())
    return out.returncode, passed, failed or (1 if out.returncode else 0)


def main(program):
    argv_of = program()
    wanted = [s for s in SUITES if not sys.argv[1:] or s.removeprefix("suite_") in sys.argv[1:]]
    total = {"passed": 0, "failed": 0}
    with cli_daemon.Daemon(image=cli_daemon.DEFAULT) as d:
        for suite in wanted:
            began = time.monotonic()
            code, passed, failed = run(argv_of(suite), d)
            total["passed"] += passed
            total["failed"] += failed
            print(f"-- {suite}: {passed} ok, {failed} not, {time.monotonic() - began:.1f} s", flush=True)
            if code:
                print(d.tail(30))
    print(", ".join(f"{n} {what}" for what, n in total.items()))
    sys.exit(1 if total["failed"] or not total["passed"] else 0)
