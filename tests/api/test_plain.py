"""Commands that run without their shell, in the default image: bash is the oracle."""
import pytest

import cli_daemon

IMAGE = cli_daemon.DEFAULT

COMMANDS = ["env", "/usr/bin/env", "ls -la /etc/hostname /nosuch", "python3 --version", "pwd",
            "/bin/pwd", "true", "/bin/true", "nosuchcommand x", "/nosuch x", "/etc/passwd", "/etc",
            "cat /proc/self/cmdline", "cat /proc/self/comm", "grep -c root /etc/passwd",
            "git --version", "echo a=b %1 x,y:z", "/bin/echo a=b %1 x,y:z", "node -p 1+1",
            "sh -c 'exit 3'", "A=1 env", "echo $HOME", "ls -d /*", "which ls", "readlink /proc/self/exe"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_what_bash_makes_of_it(api, box, command):
    got = api.exec(box, command)
    # A shell within the shell of the same command; exec, or it would count as one level more.
    quoted = command.replace("'", "'\\''")
    want = api.exec(box, f"unset SHLVL _; exec -a bash /bin/bash -c '{quoted}'")
    assert got["exitCode"] == want["exitCode"]
    assert sorted(got["result"].splitlines()) == sorted(want["result"].splitlines())
