"""The control API: life, filters, settings and refusals of sandboxes."""
import re
import threading
import time
import uuid
from urllib.parse import quote

import pytest

from resthelp import ISO, refused, wait_for

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
TYPES = {  # required keys of Sandbox and the JSON types clients insist on
    "id": str, "organizationId": str, "name": str, "user": str, "env": dict, "labels": dict,
    "public": bool, "networkBlockAll": bool, "target": str, "cpu": int, "gpu": int, "memory": int,
    "disk": int, "toolboxProxyUrl": str, "kvm": bool,
}
ITEM_LACKS = {"env", "volumes", "buildInfo", "outboundProxyUrl", "otelEndpointOverride", "kvm"}


def check_sandbox(sb, item=False):
    for key, kind in TYPES.items():
        if item and key in ITEM_LACKS:
            assert key not in sb, key
        else:
            assert type(sb[key]) is kind, (key, sb.get(key))
    assert UUID.match(sb["id"])
    assert sb["state"] and sb["desiredState"]
    for key in ("createdAt", "updatedAt", "lastActivityAt"):
        assert ISO.match(sb[key]), (key, sb.get(key))
    for key in ("autoStopInterval", "autoPauseInterval", "autoArchiveInterval",
                "autoDeleteInterval"):
        assert type(sb[key]) is int, key
    assert None not in sb.values(), sb


def ids(page):
    return [sb["id"] for sb in page["items"]]


def test_create_with_nothing_gives_a_started_default(api, make):
    sb = make()
    check_sandbox(sb)
    assert sb["state"] == "started" and sb["desiredState"] == "started"
    assert sb["name"] == sb["id"]
    assert (sb["cpu"], sb["memory"], sb["disk"]) == (1, 1, 3)
    assert sb["autoArchiveInterval"] == 10080 and sb["autoDeleteInterval"] == -1
    assert sb["toolboxProxyUrl"] == f"http://127.0.0.1:{api.port}/toolbox"
    assert sb["env"] == {} and sb["labels"] == {}


def test_create_without_a_body_is_a_default_one(api):
    status, sb = api.request("POST", "/sandbox")
    assert status == 200 and sb["autoStopInterval"] == 15
    api.delete(f"/sandbox/{sb['id']}")


def test_every_option_round_trips(api, make):
    given = {"name": "every-option", "snapshot": "caisson-medium", "user": "root",
             "env": {"A": "1", "B": "x y \" ' $(id) \u00e9"}, "labels": {"k": "v", "\u00fc": "\u65e5\u672c"},
             "public": True, "networkBlockAll": True, "autoStopInterval": 5,
             "autoPauseInterval": 0, "autoArchiveInterval": 60, "autoDeleteInterval": 120,
             "ttlMinutes": 30, "noNewPrivileges": True}
    sb = make(**given)
    check_sandbox(sb)
    for key in set(given) - {"ttlMinutes"}:
        assert sb[key] == given[key], key
    assert (sb["cpu"], sb["memory"], sb["disk"]) == (2, 4, 8)
    assert ISO.match(sb["autoDestroyAt"])
    assert api.get(f"/sandbox/{sb['id']}") == {**sb, "updatedAt": api.get(
        f"/sandbox/{sb['id']}")["updatedAt"], "lastActivityAt": api.get(
        f"/sandbox/{sb['id']}")["lastActivityAt"]}
    assert api.exec(sb["id"], 'printf %s "$B"')["result"] == given["env"]["B"]
    assert api.exec(sb["id"], "id -un")["result"].strip() == "root"


def test_create_takes_resources_without_a_snapshot(make):
    sb = make(cpu=2, memory=2, disk=4)
    assert (sb["cpu"], sb["memory"], sb["disk"]) == (2, 2, 4)


def test_get_by_id_and_by_name(api, make):
    sb = make(name="by-name")
    assert api.get("/sandbox/by-name")["id"] == sb["id"]
    assert api.get(f"/sandbox/{sb['id']}")["name"] == "by-name"
    assert api.get(f"/sandbox/{sb['id']}?verbose=true")["id"] == sb["id"]


@pytest.mark.parametrize("body,says", [
    ({"name": 5}, "name: must be a string"),
    ({"name": ""}, "name: must not be empty"),
    ({"name": "x" * 129}, "name: must have a length"),
    ({"name": "a/b"}, "name: "),
    ({"name": "h\u00e9"}, "name: "),
    ({"env": []}, "env: must be an object of strings"),
    ({"env": {"A": 1}}, "env.A: must be a string"),
    ({"env": {"1A": "x"}}, "env: "),
    ({"env": {"A=B": "x"}}, "env: "),
    ({"labels": {"a": None}}, "labels.a: must be a string"),
    ({"labels": {str(i): "" for i in range(65)}}, "labels: "),
    ({"public": "yes"}, "public: must be true or false"),
    ({"cpu": 1, "snapshot": "caisson-small"}, "cpu"),
    ({"memory": 1, "snapshot": "caisson-small"}, "memory"),
    ({"disk": 1, "snapshot": "caisson-small"}, "disk"),
    ({"snapshot": "no-such"}, "snapshot"),
    ({"gpu": 1}, "gpu: this release has no GPUs, must be 0 or absent"),
    ({"gpu": "x"}, "gpu: must be an integer"),
    ({"kvm": True}, "kvm: "),
    ({"user": "a b"}, "user: "),
    ({"autoStopInterval": 5, "autoPauseInterval": 5}, "autoPauseInterval: "),
])
def test_bad_create_names_field_and_rule(api, body, says):
    refused(api, 400, "POST", "/sandbox", body, says=says)


@pytest.mark.parametrize("body", [
    {"volumes": [{"volumeId": "x", "mountPath": "/x"}]}, {"secrets": [{"A": "b"}]},
    {"buildInfo": {"dockerfileContent": "FROM x"}}, {"networkAllowList": "93.184.216.0/24"},
    {"domainAllowList": "example.com"}, {"linkedSandbox": "x"}, {"gpuType": ["H100"]},
    {"outboundProxyUrl": "http://x"}, {"otelEndpointOverride": "http://x"},
])
def test_what_is_not_built_is_refused_aloud(api, body):
    refused(api, 501, "POST", "/sandbox", body, says=next(iter(body)) + ": ")


def test_build_info_points_to_import(api):
    refused(api, 501, "POST", "/sandbox", {"buildInfo": {"dockerfileContent": "FROM x"}},
            says=["import the image", "snapshot"])


@pytest.mark.parametrize("field", ["cpu", "memory", "disk", "autoStopInterval",
                                   "autoArchiveInterval", "ttlMinutes"])
@pytest.mark.parametrize("value", ["-1", "1e308", '"5"', "9223372036854775808", "1.5", "1e999",
                                   "true", "[]", "-9223372036854775808"])
def test_e10_numbers_are_checked_by_name(api, field, value):
    text = f'{{"{field}": {value}}}'.encode()
    reply = refused(api, 400, "POST", "/sandbox", text)
    assert field in reply["message"] or value == "1e999", reply


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b"5", b'{"name":"a","name":"b"}',
                                  b'{"name":"a\\u0000"}', b'{"name":"\xff"}', b"[" * 100000,
                                  b'{"a":' * 65 + b"1" + b"}" * 65])
def test_hostile_bodies_are_refused(api, text):
    refused(api, 400, "POST", "/sandbox", text, says="body: ")


def test_half_a_gib_of_memory_is_a_size(api, make):
    sb = make(memory=0.5)
    assert sb["memory"] == 0.5 and (sb["cpu"], sb["disk"]) == (1, 3)
    assert api.get(f"/sandbox/{sb['id']}")["memory"] == 0.5
    assert api.get(f"/toolbox/{sb['id']}/system/metrics")["memTotal"] == 512 << 20
    ids = [s["id"] for s in api.get("/sandbox?maxMemoryGiB=1&sort=memoryGib&order=asc")["items"]]
    assert ids[0] == sb["id"]
    assert sb["id"] not in [s["id"] for s in api.get("/sandbox?minMemoryGiB=1")["items"]]
    whole = make(memory=2.0)
    assert whole["memory"] == 2 and isinstance(whole["memory"], int)
    for value in (0.25, 0.75, 1.5, 0):
        refused(api, 400, "POST", "/sandbox", {"memory": value}, says="memory: ")


def test_null_means_absent(api, make):
    sb = make(name=None, cpu=None, env=None, autoDeleteInterval=None)
    assert sb["autoDeleteInterval"] == -1 and sb["name"] == sb["id"]


def test_oversized_body_is_413(api):
    refused(api, 413, "POST", "/sandbox", b'{"a":"' + b"x" * (2 << 20) + b'"}')


def test_e6_over_limit_names_limit_use_and_remedy(api):
    for field in ("cpu", "memory", "disk"):
        reply = refused(api, 400, "POST", "/sandbox", {field: 100000}, says=field)
        assert re.search(r"\d", reply["message"]), reply


def test_unknown_region_is_404(api):
    refused(api, 404, "POST", "/sandbox", {"target": "mars"})
    region = api.get("/regions")[0]["id"]
    sb = api.create(target=region)
    assert sb["target"] == region
    api.delete(f"/sandbox/{sb['id']}")


def test_duplicate_name_is_409_with_the_existing_id(api, make):
    sb = make(name="twice")
    refused(api, 409, "POST", "/sandbox", {"name": "twice"}, says=sb["id"])


def test_name_is_free_again_after_delete(api):
    first = api.create(name="again")
    api.delete("/sandbox/again")
    second = api.create(name="again")
    assert first["id"] != second["id"]
    api.delete("/sandbox/again")


def test_idempotency_key_gives_the_same_sandbox(api):
    head = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"labels": {"idem": "1"}}
    first = api.post("/sandbox", body, headers=head)
    again = api.post("/sandbox", body, headers=head)
    assert first["id"] == again["id"]
    refused(api, 409, "POST", "/sandbox", {"labels": {"idem": "2"}}, headers=head)
    api.delete(f"/sandbox/{first['id']}")


def test_idempotency_key_at_once_makes_one(api):
    head = {"Idempotency-Key": str(uuid.uuid4())}
    got = []

    def one():
        got.append(api.post("/sandbox", {"labels": {"race": "1"}}, headers=head)["id"])
    threads = [threading.Thread(target=one) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(got) == 8 and len(set(got)) == 1, got
    api.delete(f"/sandbox/{got[0]}")


def test_idempotency_key_is_bounded(api):
    refused(api, 400, "POST", "/sandbox", {}, headers={"Idempotency-Key": "x" * 256})


def test_stop_start_delete(api):
    sb = api.create(autoStopInterval=0)
    api.exec(sb["id"], "echo kept > /home/daytona/f")
    stopped = api.post(f"/sandbox/{sb['id']}/stop")
    check_sandbox(stopped)
    assert stopped["state"] == "stopped"
    refused(api, 409, "POST", f"/toolbox/{sb['id']}/process/execute", {"command": "true"})
    started = api.post(f"/sandbox/{sb['id']}/start")
    assert started["state"] == "started"
    assert api.exec(sb["id"], "cat /home/daytona/f")["result"] == "kept\n"
    assert api.post(f"/sandbox/{sb['id']}/start")["state"] == "started"
    gone = api.delete(f"/sandbox/{sb['id']}")
    check_sandbox(gone)
    assert gone["state"] in ("destroying", "destroyed")
    wait_for(lambda: api.request("GET", f"/sandbox/{sb['id']}")[0] == 404)
    refused(api, 404, "DELETE", f"/sandbox/{sb['id']}")


def test_forced_stop_does_not_wait_for_term(api, make):
    sb = make()
    api.exec(sb["id"], "trap '' TERM; (trap '' TERM; sleep 1000) > /dev/null 2>&1 &")
    began = time.monotonic()
    assert api.post(f"/sandbox/{sb['id']}/stop?force=true")["state"] == "stopped"
    assert time.monotonic() - began < 4
    refused(api, 400, "POST", f"/sandbox/{sb['id']}/stop?force=maybe", says="force: ")


def test_e1_delete_is_taken_in_every_state(api):
    for _ in range(5):
        done = []
        name = f"early-{uuid.uuid4()}"
        t = threading.Thread(target=lambda n=name: done.append(api.request(
            "POST", "/sandbox", {"name": n})))
        t.start()
        wait_for(lambda n=name: api.request("GET", f"/sandbox/{n}")[0] == 200 or done)
        assert api.request("DELETE", f"/sandbox/{name}")[0] in (200, 404)
        t.join()
        wait_for(lambda n=name: api.request("GET", f"/sandbox/{n}")[0] == 404)


@pytest.mark.parametrize("method,path", [
    ("GET", ""), ("DELETE", ""), ("POST", "/start"), ("POST", "/stop"), ("PUT", "/labels"),
    ("POST", "/public/true"), ("POST", "/autostop/5"), ("POST", "/autopause/0"),
    ("POST", "/autoarchive/5"), ("POST", "/autodelete/5"), ("POST", "/ttl/5"),
    ("POST", "/last-activity"), ("GET", "/toolbox-proxy-url"),
])
def test_unknown_sandbox_is_404(api, method, path):
    body = {"labels": {}} if path == "/labels" else None
    for name in (str(uuid.uuid4()), "no-such", "..", "%00", "x" * 300, "DESTROYED_x_1"):
        status, reply = api.request(method, f"/sandbox/{quote(name, safe='%')}{path}", body)
        assert status in (400, 404), (name, status, reply)


def test_labels_are_replaced_whole(api, make):
    sb = make(labels={"a": "1", "b": "2"})
    new = {"c": "3", "\u65e5": "\u2615"}
    assert api.call("PUT", f"/sandbox/{sb['id']}/labels", {"labels": new}) == {"labels": new}
    assert api.get(f"/sandbox/{sb['id']}")["labels"] == new
    for body in ({}, {"labels": None}, {"labels": []}, {"labels": {"a": 1}}):
        refused(api, 400, "PUT", f"/sandbox/{sb['id']}/labels", body, says="labels")


def test_public_switch(api, make):
    sb = make()
    assert api.post(f"/sandbox/{sb['id']}/public/true")["public"] is True
    assert api.post(f"/sandbox/{sb['id']}/public/false")["public"] is False
    refused(api, 400, "POST", f"/sandbox/{sb['id']}/public/yes", says="isPublic: ")


@pytest.mark.parametrize("path,key,value,bad", [
    ("autostop", "autoStopInterval", 7, ["-1", "x", "1.5", "99999999999", "0x5", "+5"]),
    ("autopause", "autoPauseInterval", 0, ["-1", "x"]),
    ("autoarchive", "autoArchiveInterval", 100, ["-1", "43201"]),
    ("autodelete", "autoDeleteInterval", 9, ["x", "9223372036854775808"]),
    ("autodelete", "autoDeleteInterval", -1, []),
])
def test_intervals(api, make, path, key, value, bad):
    sb = make()
    assert api.post(f"/sandbox/{sb['id']}/{path}/{value}")[key] == value
    assert api.get(f"/sandbox/{sb['id']}")[key] == value
    for text in bad:
        refused(api, 400, "POST", f"/sandbox/{sb['id']}/{path}/{text}")


def test_ttl_sets_and_clears_the_end(api, make):
    sb = make()
    assert ISO.match(api.post(f"/sandbox/{sb['id']}/ttl/5")["autoDestroyAt"])
    assert "autoDestroyAt" not in api.post(f"/sandbox/{sb['id']}/ttl/0")
    refused(api, 400, "POST", f"/sandbox/{sb['id']}/ttl/-1")


def test_last_activity_moves(api, make):
    sb = make()
    time.sleep(0.05)
    status, text = api.request("POST", f"/sandbox/{sb['id']}/last-activity", raw=True)
    assert (status, text) == (201, b"")
    assert api.request("POST", f"/sandbox/{sb['id']}/last-activity",
                       {"activityType": "ssh"})[0] == 201
    assert api.get(f"/sandbox/{sb['id']}")["lastActivityAt"] > sb["lastActivityAt"]


def test_toolbox_proxy_url(api, box):
    assert api.get(f"/sandbox/{box}/toolbox-proxy-url") == {
        "url": f"http://127.0.0.1:{api.port}/toolbox"}


# ---- listing ----

@pytest.fixture(scope="module")
def herd(api):
    made = []
    for i in range(5):
        made.append(api.create(name=f"herd-{i}", labels={"herd": "yes", "i": str(i)},
                               public=i == 0, autoStopInterval=0,
                               **({"cpu": 2, "memory": 2, "disk": 4} if i == 1 else {})))
    api.post("/sandbox/herd-2/stop")
    yield [sb["id"] for sb in made]
    for sb in made:
        api.delete(f"/sandbox/{sb['id']}")


HERD = "labels=" + quote('{"herd":"yes"}')


def listed(api, query):
    page = api.get(f"/sandbox?{HERD}&{query}")
    for sb in page["items"]:
        check_sandbox(sb, item=True)
    assert "nextCursor" in page
    return page


@pytest.mark.parametrize("query,want", [
    ("sort=name&order=asc", [0, 1, 2, 3, 4]),
    ("sort=name&order=desc", [4, 3, 2, 1, 0]),
    ("sort=createdAt&order=asc", [0, 1, 2, 3, 4]),
    ("sort=createdAt", [4, 3, 2, 1, 0]),
    ("sort=name&order=asc&name=HERD-", [0, 1, 2, 3, 4]),
    ("sort=name&order=asc&name=herd-3", [3]),
    ("sort=name&order=asc&states=stopped", [2]),
    ("sort=name&order=asc&states=started,stopped", [0, 1, 2, 3, 4]),
    ("sort=name&order=asc&states=started&states=stopped", [0, 1, 2, 3, 4]),
    ("sort=name&order=asc&states=archived", []),
    ("sort=name&order=asc&isPublic=true", [0]),
    ("sort=name&order=asc&isPublic=false", [1, 2, 3, 4]),
    ("sort=name&order=asc&minCpu=2", [1]),
    ("sort=name&order=asc&maxCpu=1", [0, 2, 3, 4]),
    ("sort=name&order=asc&minMemoryGiB=2&maxMemoryGiB=2", [1]),
    ("sort=name&order=asc&minDiskGiB=4", [1]),
    ("sort=name&order=asc&maxDiskGiB=3", [0, 2, 3, 4]),
    ("sort=cpu&order=desc&limit=1", [1]),
    ("sort=name&order=asc&snapshots=caisson-small", [0, 2, 3, 4]),
    ("sort=name&order=asc&snapshots=nope", []),
    ("sort=name&order=asc&regionIds=nope", []),
    ("sort=name&order=asc&createdAtAfter=2020-01-01T00:00:00Z", [0, 1, 2, 3, 4]),
    ("sort=name&order=asc&createdAtBefore=2020-01-01T00:00:00Z", []),
    ("sort=name&order=asc&lastActivityBefore=2020-01-01T00:00:00Z", []),
    ("sort=name&order=asc&lastEventAfter=2020-01-01T00:00:00Z", [0, 1, 2, 3, 4]),
    ("sort=name&order=asc&sandboxClasses=container", [0, 1, 2, 3, 4]),
    ("sort=name&order=asc&sandboxClasses=linux-vm", []),
    ("sort=name&order=asc&minGpu=1", []),
    ("sort=name&order=asc&isRecoverable=true", []),
])
def test_list_filters(api, herd, query, want):
    assert ids(listed(api, query)) == [herd[i] for i in want]


def test_list_by_id_prefix_and_labels(api, herd):
    assert ids(listed(api, f"id={herd[3][:12].upper()}")) == [herd[3]]
    assert ids(api.get("/sandbox?labels=" + quote('{"herd":"yes","i":"4"}'))) == [herd[4]]
    assert ids(api.get("/sandbox?labels=" + quote('{"herd":"no"}'))) == []


def test_list_pages_by_cursor(api, herd):
    got, cursor = [], ""
    for _ in range(10):
        page = listed(api, f"sort=name&order=asc&limit=2&cursor={quote(cursor)}")
        got += ids(page)
        cursor = page["nextCursor"]
        if not cursor:
            break
    assert got == herd and cursor is None


@pytest.mark.parametrize("query,says", [
    ("limit=0", "limit: "), ("limit=201", "limit: "), ("limit=x", "limit: "),
    ("limit=-1", "limit: "), ("limit=1e2", "limit: "), ("limit=9223372036854775808", "limit: "),
    ("sort=color", "sort: "), ("order=up", "order: "), ("states=flying", "states: "),
    ("labels=a%3Db", "labels: "), ("labels=%7B%22a%22%3A1%7D", "labels"),
    ("isPublic=1", "isPublic: "), ("createdAtAfter=yesterday", "createdAtAfter: "),
    ("minCpu=0", "minCpu: "), ("cursor=garbage", "cursor"), ("includeWarm=x", "includeWarm: "),
])
def test_bad_filters_are_400(api, query, says):
    refused(api, 400, "GET", f"/sandbox?{query}", says=says)
