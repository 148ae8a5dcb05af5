"""What make install lays down: a unit without flags, so that an operator's files win."""
import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import cli_daemon  # noqa: E402


def install(root):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    subprocess.run(["make", "-s", "install", f"DESTDIR={root}"], cwd=cli_daemon.TOP, env=env,
                   stdin=subprocess.DEVNULL, check=True)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    where = tmp_path_factory.mktemp("root")
    install(where)
    yield where
    shutil.rmtree(where)  # it holds an image


def effective(root, **env):
    """Settings of the unit's own command line, with its configuration file."""
    unit = (root / "etc/systemd/system/caissond.service").read_text()
    argv = next(x for x in unit.splitlines() if x.startswith("ExecStart="))[10:].split()
    assert argv == ["/usr/local/bin/caissond"]
    out = subprocess.run([f"{root}{argv[0]}", "--config", f"{root}/etc/caisson/caissond.conf",
                          "--print-config"], env=env, capture_output=True, check=True)
    return dict(map(str.strip, x.split("=", 1)) for x in out.stdout.decode().splitlines()
                if "=" in x)


def test_installed_defaults(root):
    got = effective(root)
    assert got["default-image"] == "/usr/local/share/caisson/default.tar.zst"
    assert got["log-format"] == "json"
    assert os.access(root / "usr/local/libexec/caisson/caisson-init", os.X_OK)


def test_environment_file_and_configuration_win(root):
    names = ("data-dir", "listen", "default-image", "init-path", "log-format")
    values = ("/d", "127.0.0.1:1", "/i.tar", "/init", "text")
    env = {f"CAISSON_{n.upper().replace('-', '_')}": v for n, v in zip(names, values)}
    got = effective(root, **env)
    assert [got[n] for n in names] == list(values)


def test_second_install_keeps_the_configuration(root):
    conf = root / "etc/caisson/caissond.conf"
    conf.write_text("listen = 127.0.0.1:2\n")
    install(root)
    assert conf.read_text() == "listen = 127.0.0.1:2\n" and \
        effective(root)["listen"] == "127.0.0.1:2"
