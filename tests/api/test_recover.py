"""POST /sandbox/{s}/recover: out of a recoverable error, with the files; refused elsewhere."""
import os

import pytest

from resthelp import refused


@pytest.fixture
def broken(api, make):
    """A sandbox whose start failed: its writable layer was away."""
    sb = make()["id"]
    api.exec(sb, "echo kept > /root/f || echo kept > /tmp/f")
    api.post(f"/sandbox/{sb}/stop")
    place, away = f"{api.data_dir}/boxes/{sb}", f"{api.data_dir}/away-{sb}"
    os.rename(place, away)
    api.request("POST", f"/sandbox/{sb}/start")
    got = api.get(f"/sandbox/{sb}")
    assert got["state"] == "error" and got["recoverable"] and got["errorReason"], got
    yield sb, lambda: os.rename(away, place)
    if os.path.exists(away):
        os.rename(away, place)


def test_recovers_with_the_files_once_the_cause_is_gone(api, broken):
    sb, mend = broken
    assert api.post(f"/sandbox/{sb}/recover")["state"] == "error"
    mend()
    got = api.post(f"/sandbox/{sb}/recover")
    assert got["state"] == "started" and "errorReason" not in got
    assert api.exec(sb, "cat /root/f /tmp/f 2> /dev/null")["result"] == "kept\n"


def test_skip_start_leaves_it_stopped(api, broken):
    sb, mend = broken
    mend()
    got = api.post(f"/sandbox/{sb}/recover?skipStart=true")
    assert got["state"] == "stopped" and got["desiredState"] == "stopped", got
    assert api.post(f"/sandbox/{sb}/start")["state"] == "started"


def test_recover_is_by_name_too(api, make):
    make(name="fine")
    refused(api, 400, "POST", "/sandbox/fine/recover", says="recover needs one in error",
            code=None)


def test_unknown_is_not_found_and_bad_query_is_refused(api, make):
    refused(api, 404, "POST", "/sandbox/nobody/recover")
    refused(api, 400, "POST", f"/sandbox/{make()['id']}/recover?skipStart=1", says="skipStart:")


def test_key_without_the_permission_is_refused(api, make):
    sb = make()["id"]
    key = api.post("/api-keys", {"name": "reader", "permissions": []})["value"]
    refused(api, 403, "POST", f"/sandbox/{sb}/recover", headers={"Authorization": f"Bearer {key}"})
