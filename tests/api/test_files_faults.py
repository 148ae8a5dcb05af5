"""Faults of files that the field has had, beyond those of reading and writing."""
import datetime
import hashlib
import re

import pytest

from test_files_find import sh, url


def test_b11_times_are_rfc_3339_to_the_nanosecond(api, box):
    sh(api, box, "touch -d '2001-02-03 04:05:06.123456789' /tmp/b11 || touch /tmp/b11")
    for entry in (api.get(url(box, "/info", path="/tmp/b11")),
                  next(e for e in api.get(url(box, "", path="/tmp")) if e["name"] == "b11")):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", entry["modifiedAt"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} \+0000 UTC", entry["modTime"])
        assert entry["modifiedAt"].startswith(entry["modTime"][:10])
        datetime.datetime.fromisoformat(entry["modifiedAt"][:19])


def test_b18_entries_of_a_merged_folder_have_an_inode(api, make):
    """Of the image below, of this sandbox above, and stable."""
    box = make(user="root")["id"]
    first = sh(api, box, ": > /etc/own; ls -i /etc")
    numbers = [int(line.split()[0]) for line in first.splitlines()]
    assert len(numbers) > 3 and 0 not in numbers
    assert sh(api, box, "ls -i /etc") == first


@pytest.mark.parametrize("force", [False, True])
def test_b21_what_was_acknowledged_is_there_after_a_stop(api, make, force):
    box = make()["id"]
    conn, want = api.connect(), {}
    for i in range(1000):
        data = hashlib.sha256(b"%d" % i).digest() * (i % 40)
        api.post(url(box, "/upload-v2", path=f"/home/daytona/b21/d{i % 10}/f{i}"), data, conn=conn)
        want[f"./d{i % 10}/f{i}"] = hashlib.sha256(data).hexdigest()
    conn.close()
    api.post(f"/sandbox/{box}/stop" + ("?force=true" if force else ""))
    api.post(f"/sandbox/{box}/start")
    got = sh(api, box, "cd /home/daytona/b21; find . -type f | xargs sha256sum")
    assert {name: digest for digest, name in (line.split() for line in got.splitlines())} == want


def test_b5_races_of_links_in_a_real_sandbox(api, box):
    """While a folder is exchanged for a link to /etc, uploads never land there."""
    sh(api, box, "mkdir -p /tmp/race/d; (cd /tmp/race; while [ ! -e stop ]; do mv d e; ln -s /etc d;"
       "rm d; mv e d; done) > /dev/null 2>&1 &")
    conn, placed = api.connect(), 0
    for _ in range(2000):
        status, _ = api.request("POST", url(box, "/upload-v2", path="/tmp/race/d/evil"), b"x", conn=conn)
        assert status in (200, 403, 404, 409), status
        placed += status == 200
    conn.close()
    sh(api, box, "touch /tmp/race/stop; ls /etc/evil 2>/dev/null && exit 1; true")
    assert placed
