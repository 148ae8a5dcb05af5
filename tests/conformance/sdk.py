"""Runs one official SDK, as published, in a process of its own against a daemon of its own.

    run-python, run-typescript [--keep-going]

The SDKs are installed once below build/ at the versions pinned in this folder. A suite prints a line
for each assertion that fails and closes with "N passed, N failed".
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

import cli_daemon  # noqa: E402

HOME = f"{cli_daemon.TOP}/build/conformance"


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
    return [python, f"{HERE}/suite.py"]


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
    shutil.copy(f"{HERE}/suite.mjs", f"{node}/suite.mjs")
    return ["node", f"{node}/suite.mjs"]


def main(program):
    argv = program()
    # An empty directory: the SDKs read .env files of the one they run in.
    with tempfile.TemporaryDirectory(prefix="caisson-sdk-") as cwd, \
            cli_daemon.Daemon(image=cli_daemon.DEFAULT) as d:
        env = {"PATH": os.environ["PATH"], "HOME": cwd, "LANG": "C.UTF-8",
               "DAYTONA_API_URL": d.url, "DAYTONA_API_KEY": d.key}
        code = subprocess.run(argv, cwd=cwd, env=env, check=False).returncode
        if code:
            print(d.tail(30))
    sys.exit(code)
