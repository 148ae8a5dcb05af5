"""The id of a request goes through the api process, the runner and the sandbox's agent."""
import json
import os
import re

from resthelp import wait_for

ARGS = ["--log-level", "debug"]


def log(api):
    with open(api.log, encoding="utf-8", errors="replace") as f:
        return f.read()


def failures(api, sandbox):
    return api.get(f"/caisson/sandboxes/{sandbox}/failures")["items"]


def test_failed_command_is_noted_by_the_agent_with_the_id(api, box):
    head = {"X-Request-Id": "trace-one"}
    status, _ = api.request("POST", f"/toolbox/{box}/process/execute",
                            {"command": "true", "cwd": "/no/such/place"}, headers=head)
    assert status == 400
    mine = [x for x in failures(api, box) if x.get("requestId") == "trace-one"]
    assert len(mine) == 1 and "/no/such/place" in mine[0]["message"], mine
    assert re.match(r"\d{4}-\d\d-\d\dT", mine[0]["at"])


def test_failed_file_call_is_noted_by_a_worker_with_the_id(api, box):
    status, _ = api.request("GET", f"/toolbox/{box}/files/info?path=/gone",
                            headers={"X-Request-Id": "trace-two"})
    assert status == 404
    assert [x["message"] for x in failures(api, box) if x.get("requestId") == "trace-two"]


def test_calls_that_succeed_are_not_noted(api, box):
    before = failures(api, box)
    api.exec(box, "exit 3")
    assert failures(api, box) == before


def test_notes_are_bounded_and_the_newest_stay(api, box):
    for i in range(120):
        api.request("GET", f"/toolbox/{box}/files/info?path=/none-{i}-{'x' * 100}",
                    headers={"X-Request-Id": f"many-{i}"})
    items = failures(api, box)
    assert items[-1]["requestId"] == "many-119" and 10 < len(items) < 60
    assert all(x["requestId"] for x in items)


def test_odd_ids_cannot_forge_a_note(api, box):
    api.request("GET", f"/toolbox/{box}/files/info?path=/a%0a1%20fake%20line",
                headers={"X-Request-Id": "a b/c\td"})
    last = failures(api, box)[-1]
    assert last["requestId"] != "fake" and " " not in last["requestId"]


def test_api_and_runner_log_the_id(api, make):
    sb = make()["id"]
    api.request("POST", f"/sandbox/{sb}/stop?force=true", headers={"X-Request-Id": "trace-stop"})

    os.rename(f"{api.data_dir}/boxes/{sb}", f"{api.data_dir}/away-{sb}")
    try:
        api.request("POST", f"/sandbox/{sb}/start", headers={"X-Request-Id": "trace-start"})
        wait_for(lambda: re.search(r" runner \[trace-start\] ", log(api)))
        assert re.search(r" api \[trace-start\] ", log(api))
    finally:
        os.rename(f"{api.data_dir}/away-{sb}", f"{api.data_dir}/boxes/{sb}")


def test_cli_shows_the_notes(api, box):
    api.request("GET", f"/toolbox/{box}/files/info?path=/cli-gone",
                headers={"X-Request-Id": "trace-cli"})
    assert b"[trace-cli] " in api.cli("logs", "--agent", box).stdout
    assert json.loads(api.cli("logs", "--agent", "-j", box).stdout) == failures(api, box)


def test_stopped_sandbox_has_no_notes(api, make):
    sb = make()["id"]
    api.post(f"/sandbox/{sb}/stop?force=true")
    status, body = api.request("GET", f"/caisson/sandboxes/{sb}/failures")
    assert status == 409, body
