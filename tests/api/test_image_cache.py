"""The cache of built images keeps what is used and what was used last, no more."""
import os
import subprocess

import pytest

import cli_daemon


@pytest.fixture
def cache(tmp_path):
    (tmp_path / "images").mkdir()
    return tmp_path / "images"


def entry(cache, name, note, age_days):
    (cache / f"{name}.tar.zst").write_bytes(b"image")
    (cache / f"{name}.{note}").write_bytes(b"note")
    when = 1700000000 - age_days * 86400
    os.utime(cache / f"{name}.{note}", (when, when))


def prune(cache):
    out = subprocess.run([f"{cli_daemon.TOP}/tools/mkimage", "--prune"], capture_output=True,
                         env={**os.environ, "CAISSON_CACHE": str(cache.parent)}, check=True)
    assert not out.stderr, out.stderr
    return sorted(p.name for p in cache.iterdir() if p.name != "lock")


def both(name, note="json"):
    return [f"{name}.{note}", f"{name}.tar.zst"]


def test_two_used_last_and_those_in_use_stay(cache):
    for age, name in enumerate(["a" * 64, "b" * 64, "c" * 64, "d" * 64, "e" * 64]):
        entry(cache, name, "json", age)
    os.link(cache / ("d" * 64 + ".tar.zst"), cache.parent / "default.tar.zst")
    assert prune(cache) == sorted(both("a" * 64) + both("b" * 64) + both("d" * 64))


def test_two_base_layers_stay(cache):
    for age, name in enumerate(["base-c", "base-b", "base-a"]):
        entry(cache, name, "packages", age)
    (cache / "busybox-static-amd64").write_bytes(b"other")
    assert prune(cache) == sorted(both("base-b", "packages") + both("base-c", "packages")
                                  + ["busybox-static-amd64"])


def test_nothing_goes_where_little_is(cache):
    entry(cache, "a" * 64, "json", 900)
    assert prune(cache) == both("a" * 64)
