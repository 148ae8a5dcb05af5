"""A daemon whose wall clock a test moves: minutes of idle time in no time.

    clock = fakeclock.Clock(directory)
    with cli_daemon.Daemon(env=clock.env) as d:
        clock.forward(30 * 60)
"""
import os
import struct
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


class Clock:
    def __init__(self, directory):
        self.path, so = f"{directory}/clock", f"{directory}/fakeclock.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", so,
                        f"{HERE}/fakeclock.c", "-ldl"], check=True)
        self.seconds = 0
        self._write()
        self.env = {"LD_PRELOAD": so, "CAISSON_TEST_CLOCK": self.path}

    def forward(self, seconds):
        self.seconds += seconds
        self._write()

    def _write(self):
        # In place: the daemon has the file mapped.
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(fd, struct.pack("=q", self.seconds), 0)
        os.close(fd)
