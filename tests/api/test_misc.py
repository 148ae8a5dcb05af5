"""Keys, organizations, regions, snapshots, configuration, events, and what every route shares."""
import io
import json
import shutil
import sqlite3
import tarfile
import threading
import time
import uuid

import pytest

import cli_daemon
from resthelp import ISO, Events, WebSocket, refused, wait_for


def test_health_and_config_need_no_key(api):
    for path in ("/health", "/health/ready"):
        status, reply = api.request("GET", path, headers={"Authorization": ""})
        assert (status, reply["status"]) == (200, "ok")
    status, cfg = api.request("GET", "/config", headers={"Authorization": ""})
    assert status == 200
    assert cfg["proxyToolboxUrl"] == f"http://127.0.0.1:{api.port}/toolbox"
    assert cfg["defaultSnapshot"] == "caisson-small" and cfg["maxAutoArchiveInterval"] == 43200
    assert cfg["maintananceMode"] is False and cfg["oidc"]["provider"] in ("auth0", "workos")
    assert "analyticsApiUrl" not in cfg


def openapi_routes():
    for name, prefix in (("daytona-control", ""), ("daytona-toolbox", "/toolbox/{sandboxId}"),
                         ("caisson", "/caisson")):
        with open(f"{cli_daemon.TOP}/openapi/{name}.json", encoding="utf-8") as f:
            doc = json.load(f)
        for path, methods in doc["paths"].items():
            for method, op in methods.items():
                if method in ("get", "post", "put", "patch", "delete", "head"):
                    yield method.upper(), prefix + path, op


def filled(path):
    import re
    return re.sub(r"\{\w+\*?\}", "5", path)


@pytest.mark.parametrize("key", ["", "Bearer ", "Bearer wrong", "Basic eDp5", "Bearer " + "x" * 5000])
def test_wrong_key_is_401_everywhere(api, key):
    for method, path, op in openapi_routes():
        extra = op.get("x-caisson", {})
        if extra.get("auth") is False or method == "HEAD":
            continue
        status, reply = api.request(method, filled(path), headers={"Authorization": key})
        assert status == 401, (method, path, status, reply)


def test_unbuilt_operations_are_501_for_a_valid_key(api):
    seen = 0
    for method, path, op in openapi_routes():
        if op.get("x-caisson", {}).get("built") or method == "HEAD":
            continue
        status, reply = api.request(method, filled(path))
        assert status == 501, (method, path, status, reply)
        assert reply["message"], reply
        seen += 1
    # The documents were read; what is unbuilt becomes less.
    assert seen > 20


def test_unknown_paths_and_methods(api):
    refused(api, 404, "GET", "/nowhere")
    refused(api, 404, "GET", f"/toolbox/{uuid.uuid4()}/nowhere")
    status, reply = api.request("PATCH", "/sandbox")
    assert status in (404, 405), reply


@pytest.mark.parametrize("rest,status,code", [
    ("/a%zz", 400, "BAD_REQUEST"), ("/a%4", 400, "BAD_REQUEST"), ("/a%00b", 400, "BAD_REQUEST"),
    ("/a%ff", 400, "BAD_REQUEST"), ("/a?x=%00", 400, "BAD_REQUEST"), ("?x=%zz", 400, "BAD_REQUEST"),
    ("/" + "x" * 20000, 414, "URI_TOO_LONG"), ("/nowhere", 404, "NOT_FOUND"),
])
@pytest.mark.parametrize("base", ["", "/toolbox", "/toolbox/5/files"])
def test_errors_of_the_url_have_the_dialects_body(api, base, rest, status, code):
    got, reply = api.request("GET", base + rest)
    assert got == status and reply["statusCode"] == status, reply
    assert reply["source"] == ("DAYTONA_DAEMON" if base else "DAYTONA_API") and reply["message"]
    assert reply["code"] == code and ISO.match(reply["timestamp"]) and len(reply["path"]) < 300
    assert reply["path"].startswith(base or "/api"), reply


def test_a_wrong_method_has_its_own_code(api, box):
    for path in ("/sandbox", f"/toolbox/{box}/process/execute", "/caisson/status"):
        status, reply = api.request("PATCH", path)
        assert (status, reply["code"]) == (405, "METHOD_NOT_ALLOWED"), reply
    refused(api, 405, "PATCH", f"/toolbox/{box}/process/execute", code="METHOD_NOT_ALLOWED")


def test_organization_header_must_be_the_keys(api):
    org = api.get("/organizations")[0]["id"]
    head = {"X-Daytona-Organization-ID": org}
    assert api.request("GET", "/sandbox", headers=head)[0] == 200
    refused(api, 404, "GET", "/sandbox", headers={"X-Daytona-Organization-ID": str(uuid.uuid4())})


def test_organization_and_user(api):
    org = api.get("/organizations")[0]
    assert api.get(f"/organizations/{org['id']}") == org
    for key in ("personal", "suspended", "scimEnabled"):
        assert type(org[key]) is bool
    assert org["maxCpuPerSandbox"] >= 1 and org["authenticatedRateLimit"] is None
    refused(api, 404, "GET", f"/organizations/{uuid.uuid4()}")
    me = api.get("/users/me")
    assert me["emailVerified"] is True and me["publicKeys"] == [] and ISO.match(me["createdAt"])
    members = api.get(f"/organizations/{org['id']}/users")
    assert [m["userId"] for m in members] == [me["id"]] and members[0]["role"] == "owner"


def test_regions(api):
    regions = api.get("/regions")
    assert len(regions) == 1 and api.get("/shared-regions") == regions
    assert api.get(f"/regions/{regions[0]['id']}") == regions[0]
    assert regions[0]["regionType"] == "shared"
    refused(api, 404, "GET", "/regions/mars")


def test_snapshots(api):
    page = api.get("/snapshots")
    by_name = {s["name"]: s for s in page["items"]}
    assert {"caisson-small", "caisson-medium", "caisson-large"} <= set(by_name)
    assert page["total"] >= 3 and page["page"] == 1 and page["totalPages"] == 1
    large = by_name["caisson-large"]
    assert (large["cpu"], large["mem"], large["disk"]) == (4, 8, 10)
    assert large["state"] == "active" and large["general"] is True
    for key in ("size", "entrypoint", "errorReason", "lastUsedAt", "sourceSandboxId"):
        assert key in large
    assert api.get("/snapshots/caisson-large")["id"] == large["id"]
    assert api.get(f"/snapshots/{large['id']}")["name"] == "caisson-large"
    assert [s["name"] for s in api.get("/snapshots?name=medium")["items"]] == ["caisson-medium"]
    assert len(api.get("/snapshots?limit=1&page=2")["items"]) == 1
    refused(api, 404, "GET", "/snapshots/nope")
    for query in ("page=0", "limit=0", "limit=201", "sort=x", "order=x"):
        refused(api, 400, "GET", f"/snapshots?{query}", says=query.split("=")[0])


# ---- keys ----

def test_key_life(api):
    made = api.post("/api-keys", {"name": "life \u00e9", "permissions": ["write:sandboxes"]})
    assert set(made) == {"name", "value", "createdAt", "permissions", "expiresAt"}
    assert made["value"].startswith("dtn_") and len(made["value"]) == 68
    assert made["expiresAt"] is None and made["permissions"] == ["write:sandboxes"]
    listed = {k["name"]: k for k in api.get("/api-keys")}
    assert made["value"] not in json.dumps(listed)
    assert "*" in listed["life \u00e9"]["value"]
    head = {"Authorization": f"Bearer {made['value']}"}
    status, current = api.request("GET", "/api-keys/current", headers=head)
    assert status == 200 and current["name"] == "life \u00e9"
    assert api.request("GET", "/sandbox", headers=head)[0] == 200
    assert api.get("/api-keys/life%20%C3%A9")["name"] == "life \u00e9"
    refused(api, 409, "POST", "/api-keys", {"name": "life \u00e9", "permissions": []})
    status, _ = api.request("DELETE", "/api-keys/life%20%C3%A9")
    assert status == 204
    assert api.request("GET", "/sandbox", headers=head)[0] == 401
    refused(api, 404, "DELETE", "/api-keys/life%20%C3%A9")


def test_key_without_permission_is_403(api, box):
    made = api.post("/api-keys", {"name": "reader", "permissions": []})
    head = {"Authorization": f"Bearer {made['value']}"}
    assert api.request("GET", f"/sandbox/{box}", headers=head)[0] == 200
    refused(api, 403, "POST", "/sandbox", {}, headers=head)
    refused(api, 403, "DELETE", f"/sandbox/{box}", headers=head)
    refused(api, 403, "POST", f"/toolbox/{box}/process/execute", {"command": "id"}, headers=head)
    assert api.request("DELETE", "/api-keys/reader")[0] == 204


def test_key_with_an_end(api):
    made = api.post("/api-keys", {"name": "past", "permissions": [],
                                  "expiresAt": "2099-01-01T00:00:00Z"})
    assert made["expiresAt"] == "2099-01-01T00:00:00.000Z"
    api.request("DELETE", "/api-keys/past")


@pytest.mark.parametrize("body,says", [
    ({}, "name: is required"), ({"name": "x"}, "permissions: is required"),
    ({"name": "", "permissions": []}, "name: "), ({"name": 5, "permissions": []}, "name: "),
    ({"name": "x", "permissions": "write:sandboxes"}, "permissions: "),
    ({"name": "x", "permissions": [5]}, "permissions[0]: "),
    ({"name": "x", "permissions": ["fly:away"]}, "permissions"),
    ({"name": "x", "permissions": [], "expiresAt": "soon"}, "expiresAt: "),
])
def test_bad_key_is_400(api, body, says):
    refused(api, 400, "POST", "/api-keys", body, says=says)


# ---- events ----

def test_events_follow_a_sandbox(api):
    ev = Events(api)
    assert ev.accepted and ev.opened["pingInterval"] == 25000
    sb = api.create(autoStopInterval=0)
    made = ev.until("sandbox.created", lambda p: p["id"] == sb["id"])
    assert made["toolboxProxyUrl"] == sb["toolboxProxyUrl"]
    got = ev.until("sandbox.state.updated", lambda p: p["newState"] == "started")
    assert got["sandbox"]["id"] == sb["id"] and got["sandbox"]["state"] == "started"
    api.post(f"/sandbox/{sb['id']}/stop")
    ev.until("sandbox.state.updated", lambda p: (p["oldState"], p["newState"]) == (
        "started", "stopping"))
    ev.until("sandbox.state.updated", lambda p: p["newState"] == "stopped")
    api.delete(f"/sandbox/{sb['id']}")
    ev.until("sandbox.state.updated", lambda p: p["newState"] == "destroyed")
    ev.ws.close()


def test_events_refuse_a_wrong_key(api):
    ev = Events(api, token="dtn_" + "0" * 64)
    assert not ev.accepted and ev.reply["message"]


def test_socket_without_upgrade_is_400(api):
    refused(api, 400, "GET", "/socket.io/?EIO=4&transport=polling")


def test_many_listeners_come_and_go(api):
    def one():
        ev = Events(api)
        assert ev.accepted
        ev.ws.close()
    threads = [threading.Thread(target=one) for _ in range(40)]
    for t in threads:
        t.start()
    sb = api.create(autoStopInterval=0)
    for t in threads:
        t.join()
    api.delete(f"/sandbox/{sb['id']}")


# ---- native ----

@pytest.fixture
def other_tar(tmp_path):
    """The small root and one more file, so that its layer is nobody else's."""
    path = tmp_path / "other.tar"
    shutil.copy(cli_daemon.BUSYBOX, path)
    with tarfile.open(path, "a") as tar:
        extra = tarfile.TarInfo("etc/other")
        tar.addfile(extra, io.BytesIO(b""))
    return path.read_bytes()


def test_status_and_images(api, other_tar):
    assert api.get("/caisson/status")["ready"] is True
    made = api.post("/caisson/images?name=other", other_tar)
    assert made["name"] == "other" and made["files"] > 100 and made["bytes"] > 1000000
    assert "other" in [i["name"] for i in api.get("/caisson/images")["items"]]
    sb = api.create(snapshot="other", autoStopInterval=0)
    assert api.exec(sb["id"], "ls /etc/other")["result"] == "/etc/other\n"
    status, reply = api.request("DELETE", "/caisson/images/other")
    assert status == 409 and "other" in reply["message"], reply
    api.delete(f"/sandbox/{sb['id']}")
    wait_for(lambda: api.request("DELETE", "/caisson/images/other")[0] == 204)
    assert api.request("DELETE", "/caisson/images/other")[0] == 404
    assert api.request("DELETE", "/caisson/images/default")[0] == 409


def test_second_name_of_a_layer_may_go_while_it_runs(api, box):
    with open(cli_daemon.BUSYBOX, "rb") as f:
        api.post("/caisson/images?name=twin", f.read())
    assert api.request("DELETE", "/caisson/images/twin")[0] == 204
    assert api.exec(box, "echo on")["result"] == "on\n"


@pytest.mark.parametrize("query,body,status", [
    ("", b"x", 400), ("?name=", b"x", 400), ("?name=bad", b"not a tar" * 1000, 400),
    ("?name=bad", b"", 400), ("?name=..%2Fx", b"x", 400),
])
def test_bad_image_is_refused(api, query, body, status):
    got, reply = api.request("POST", f"/caisson/images{query}", body)
    assert got == status and reply["message"] and reply["code"], reply
    assert "bad" not in [i["name"] for i in api.get("/caisson/images")["items"]]


def exec_ws(api, box, start):
    ws = WebSocket(api, f"/api/caisson/sandboxes/{box}/exec")
    assert ws.status == 101
    ws.send(json.dumps(start))
    return ws


def drain(ws):
    out = {1: b"", 2: b""}
    while True:
        op, data = ws.recv()
        if op == 2:
            out[data[0]] += data[1:]
        elif op == 1:
            last = json.loads(data)
            op, data = ws.recv()
            assert op == 8
            return out, last, int.from_bytes(data[:2], "big")


def test_attached_exec(api, box):
    ws = exec_ws(api, box, {"command": "cat; echo e >&2; exit 3", "stdin": True})
    ws.send(b"\0hello ")
    ws.send(b"\0" + b"x" * 300000)
    ws.send(json.dumps({"type": "eof"}))
    out, last, code = drain(ws)
    assert out[1] == b"hello " + b"x" * 300000 and out[2] == b"e\n"
    assert last == {"type": "exit", "exitCode": 3, "cause": "exited"} and code == 1000


def test_attached_exec_signal_timeout_and_tty(api, box):
    ws = exec_ws(api, box, {"argv": ["sleep", "100"]})
    ws.send(json.dumps({"type": "signal", "signal": "SIGTERM"}))
    _, last, _ = drain(ws)
    assert last["cause"] == "signal" and last["exitCode"] == 143
    ws = exec_ws(api, box, {"argv": ["sleep", "100"], "timeoutMs": 200})
    _, last, _ = drain(ws)
    assert last["cause"] == "timeout"
    ws = exec_ws(api, box, {"command": "stty size; tty", "tty": True, "cols": 91, "rows": 17})
    out, last, _ = drain(ws)
    assert out[1].startswith(b"17 91\r\n/dev/pts/") and last["exitCode"] == 0


def test_attached_exec_refusals(api, box):
    for start in ({}, {"argv": []}, {"command": "x", "argv": ["x"]}, {"argv": [5]},
                  {"command": "x", "cwd": "/nope"}, {"argv": ["/no/such/program"]}):
        ws = exec_ws(api, box, start)
        _, last, code = drain(ws)
        if last["type"] == "exit":
            assert last["exitCode"] in (126, 127), last
        else:
            assert last["error"]["message"] and code == 1008, last
    refused_ws = WebSocket(api, f"/api/caisson/sandboxes/{uuid.uuid4()}/exec")
    assert refused_ws.status == 404


def test_attached_exec_ends_with_its_client(api, box):
    ws = exec_ws(api, box, {"command": "exec sleep 777.5"})
    wait_for(lambda: "777.5" in api.exec(box, "ps -o args")["result"])
    ws.close()
    wait_for(lambda: "sleep 777.5" not in api.exec(box, "ps -o args")["result"])


def rss_kib(api):
    with open(f"/proc/{api.pids()['api']}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


def test_a13_200_mb_of_output_streamed_with_flat_memory(api, box):
    before, got = rss_kib(api), 0
    ws = exec_ws(api, box, {"command": "head -c 200000000 /dev/zero | tr '\\0' x"})
    while True:
        op, data = ws.recv()
        if op == 1:
            break
        got += len(data) - 1
    assert got == 200000000 and json.loads(data)["exitCode"] == 0
    assert rss_kib(api) < before + 16 * 1024


def test_a25_reader_that_stops_stops_the_writer(api, box):
    before = rss_kib(api)
    ws = exec_ws(api, box, {"command": "exec yes 0123456789"})
    time.sleep(2)
    assert rss_kib(api) < before + 16 * 1024
    ws.close()
    wait_for(lambda: "yes 0123456789" not in api.exec(box, "ps -o args")["result"])


# ---- audit ----

def audit(api, where, *values):
    db = sqlite3.connect(f"file:{api.data_dir}/api/caisson.db?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    try:
        return [dict(r) for r in db.execute(f"SELECT * FROM audit WHERE {where}", values)]
    finally:
        db.close()


def test_every_mutating_call_leaves_an_audit_row(api):
    head = {"User-Agent": "audit-test/1", "X-Daytona-Source": "sdk-test"}
    sb = api.post("/sandbox", {"autoStopInterval": 0}, headers=head)["id"]
    calls = [
        ("POST", f"/sandbox/{sb}/autostop/5", None, "set_auto_stop_interval", 200),
        ("PUT", f"/sandbox/{sb}/labels", {"labels": {}}, "replace_labels", 200),
        ("POST", f"/sandbox/{sb}/public/true", None, "update_public_status", 200),
        ("POST", f"/toolbox/{sb}/process/execute", {"command": "true"}, "toolbox_execute_command",
         200),
        ("POST", f"/toolbox/{sb}/process/execute", {"command": ""}, "toolbox_execute_command", 400),
        ("POST", f"/toolbox/{sb}/files/upload-v2?path=/tmp/a", b"x", "toolbox_upload_file", 200),
        ("DELETE", f"/toolbox/{sb}/files?path=/nope", None, "toolbox_delete_file", 404),
        ("POST", f"/sandbox/{sb}/stop", None, "stop", 200),
        ("POST", f"/sandbox/{sb}/start", None, "start", 200),
        ("DELETE", f"/sandbox/{sb}", None, "delete", 200),
    ]
    for method, path, body, _, want in calls:
        status, reply = api.request(method, path, body, headers=head)
        assert status == want, (path, reply)
    rows = wait_for(lambda: (lambda r: len(r) == len(calls) + 1 and r)(
        audit(api, "target_id = ? ORDER BY id", sb)))
    assert [(r["action"], r["status"]) for r in rows] == [("create", 200)] + [
        (action, status) for _, _, _, action, status in calls]
    for r in rows:
        assert r["target_type"] == "sandbox" and r["address"] == "127.0.0.1", r
        assert r["user_agent"] == "audit-test/1" and r["source"] == "sdk-test", r
        assert r["key_name"] and r["user_id"] and r["org_id"] and r["key_suffix"], r
        assert bool(r["error"]) == (r["status"] >= 400), r
    assert api.key not in json.dumps(rows)
    api.get(f"/sandbox?labels=%7B%22none%22%3A%22x%22%7D")
    assert not audit(api, "action LIKE '%get%' OR action LIKE '%list%'")


def test_refused_permission_is_audited(api):
    made = api.post("/api-keys", {"name": "audited", "permissions": []})
    refused(api, 403, "POST", "/sandbox", {}, headers={"Authorization": f"Bearer {made['value']}"})
    rows = wait_for(lambda: audit(api, "key_name = ? AND action = 'create'", "audited"))
    assert rows[0]["status"] == 403
    assert audit(api, "action = 'create' AND target_type = 'api_key' AND target_id = ?", "audited")
    api.request("DELETE", "/api-keys/audited")
