"""Who is let in: every route, foreign organizations, keys that ended."""
import hashlib
import json
import re
import sqlite3
import time
import uuid

import pytest

import cli_daemon
from resthelp import Events, WebSocket

DOCS = (("daytona-control", "/api"), ("daytona-toolbox", "/toolbox/{sandboxId}"),
        ("caisson", "/api/caisson"))
OPEN = {"/api/health", "/api/config", "/api/socket.io/", "/api/socket.io"}
NOBODY = "dtn_" + "0" * 64
ODD_KEYS = [None, "", "Bearer", "Bearer ", f"Bearer {NOBODY}", "Basic YTpi", "Bearer null",
            "Bearer ' OR 1=1 --", "Bearer " + "x" * 3000, "Bearer %s%n", "bearer\t" + NOBODY]


def operations():
    for name, prefix in DOCS:
        with open(f"{cli_daemon.TOP}/openapi/{name}.json", encoding="utf-8") as f:
            doc = json.load(f)
        for path, methods in doc["paths"].items():
            for method, op in methods.items():
                if method in ("get", "put", "post", "delete", "patch", "head"):
                    yield method.upper(), prefix + path, doc, op


def fill(path, sandbox, other="x"):
    for name in ("sandboxIdOrName", "sandboxId", "id"):
        path = path.replace("{%s}" % name, sandbox)
    return re.sub(r"\{[^}]*\}", other, path)


def ask(api, conn, method, path, auth, body=None, extra=()):
    conn.putrequest(method, path, skip_accept_encoding=True)
    if auth is not None:
        conn.putheader("Authorization", auth)
    for k, v in extra:
        conn.putheader(k, v)
    data = b""
    if method not in ("GET", "HEAD"):
        data = body or b""
        conn.putheader("Content-Length", str(len(data)))
        conn.putheader("Content-Type", "application/json")
    conn.endheaders(data)
    reply = conn.getresponse()
    text = reply.read()
    if reply.will_close:
        conn.close()
    return reply.status, text


def is_open(path, op):
    return path in OPEN or op.get("security") == []


@pytest.fixture(scope="module")
def stranger(api):
    """A key of another organization, put straight into the records."""
    token = "dtn_" + uuid.uuid4().hex * 2
    org, user = str(uuid.uuid4()), str(uuid.uuid4())
    with sqlite3.connect(f"{api.data_dir}/api/caisson.db", timeout=10) as db:
        def copy(table, **change):
            cur = db.execute(f"SELECT * FROM {table} LIMIT 1")
            row = {**dict(zip([c[0] for c in cur.description], cur.fetchone())), **change}
            db.execute(f"INSERT INTO {table} ({','.join(row)}) VALUES "
                       f"({','.join('?' * len(row))})", list(row.values()))
        copy("user", id=user, name="stranger")
        copy("org", id=org, name="other", created_by=user)
        copy("api_key", hash=hashlib.sha256(token.encode()).digest(), org_id=org, user_id=user,
             name="stranger", expires_ms=0)
    return token


def test_every_route_wants_a_key(api, box):
    conn, seen = api.connect(), 0
    for method, path, _, op in operations():
        if is_open(path, op):
            continue
        for auth in ODD_KEYS[:3] + [f"Bearer {NOBODY}"]:
            status, text = ask(api, conn, method, fill(path, box), auth, b"{}")
            assert status == 401, (method, path, auth, status, text[:200])
        seen += 1
    assert seen > 100
    for auth in ODD_KEYS:
        assert ask(api, conn, "GET", "/api/sandbox", auth)[0] == 401, auth


def test_a_key_in_other_places_does_not_count(api, box):
    conn = api.connect()
    for where in (f"/api/sandbox?token={api.key}", f"/api/sandbox?authorization=Bearer%20{api.key}",
                  f"/toolbox/{box}/files?path=/&DAYTONA_SANDBOX_AUTH_KEY={api.key}"):
        assert ask(api, conn, "GET", where, None)[0] == 401, where
    for head in ("X-Daytona-Preview-Token", "X-API-Key", "Cookie", "Proxy-Authorization"):
        assert ask(api, conn, "GET", "/api/sandbox", None, extra=[(head, api.key)])[0] == 401, head


def test_paths_that_only_look_alike_are_no_way_in(api, box):
    conn = api.connect()
    for path in ("/api//sandbox", "/api/./sandbox", "/api/health/../sandbox", "/api/sandbox/",
                 "/api/health/..%2fsandbox", "/api/health%2f..%2fsandbox", "/API/sandbox",
                 "/api/sandbox%00", "/api/health;/../sandbox", "/%61pi/sandbox", "//api/sandbox",
                 "/api/config/../api-keys", f"/toolbox/{box}/../{box}/files?path=/",
                 f"/toolbox/{box}%2ffiles?path=/", "/openapi/../api/sandbox"):
        status, text = ask(api, conn, "GET", path, None)
        assert status in (400, 401, 404), (path, status, text[:100])


def test_a_foreign_organization_sees_nothing(api, box, stranger):
    conn, checked = api.connect(), 0
    name = api.get(f"/sandbox/{box}")["name"]
    bearer = f"Bearer {stranger}"
    for method, path, _, op in operations():
        if "{sandboxId" not in path and "{id}" not in path or not op.get("x-caisson", {}).get("built"):
            continue
        for target in (box, name):
            status, text = ask(api, conn, method, fill(path, target), bearer, b"{}")
            # /init is refused before anybody looks for the sandbox.
            allowed = (403,) if path == "/toolbox/{sandboxId}/init" else (400, 404, 426)
            assert status in allowed, (method, path, status, text[:200])
            assert box.encode() not in text or box == target, (method, path, text[:200])
            checked += status == 404
    assert checked > 20
    assert api.get(f"/sandbox/{box}")["state"] == "started"
    reply = json.loads(ask(api, conn, "GET", "/api/sandbox", bearer)[1])
    assert not reply["items"], reply
    # Also by naming the organization that owns it.
    org = api.get(f"/sandbox/{box}")["organizationId"]
    status, _ = ask(api, conn, "GET", f"/api/sandbox/{box}", bearer,
                    extra=[("X-Daytona-Organization-ID", org)])
    assert status == 404
    ws = WebSocket(api, f"/api/caisson/sandboxes/{box}/exec", key=False)
    assert ws.status == 401


def key_of(api, name, permissions=()):
    return api.post("/api-keys", {"name": name, "permissions": list(permissions)})["value"]


def test_a_key_gives_no_more_than_it_has(api, box):
    low = key_of(api, "low", ["write:sandboxes"])
    head = {"Authorization": f"Bearer {low}"}
    assert api.request("GET", "/sandbox", headers=head)[0] == 200
    assert api.request("DELETE", f"/sandbox/{box}", headers=head)[0] == 403
    for perms in (["delete:sandboxes"], ["write:sandboxes", "manage:api_keys"]):
        got, reply = api.request("POST", "/api-keys", {"name": "up", "permissions": perms},
                                 headers=head)
        assert got == 403, (perms, got, reply)
    none = {"Authorization": f"Bearer {key_of(api, 'none')}"}
    assert api.request("POST", "/sandbox", {}, headers=none)[0] == 403
    assert api.request("POST", f"/toolbox/{box}/process/execute", {"command": "true"},
                       headers=none)[0] == 403


def test_a_key_takes_away_no_more_than_it_has(api):
    key_of(api, "many", ["write:sandboxes", "delete:sandboxes"])
    few = {"Authorization": f"Bearer {key_of(api, 'few', ['write:sandboxes'])}"}
    key_of(api, "none2")
    for name in ("admin", "many"):
        assert api.request("DELETE", f"/api-keys/{name}", headers=few)[0] == 403, name
    assert api.request("DELETE", "/api-keys/none2", headers=few)[0] == 204
    assert api.request("DELETE", "/api-keys/few", headers=few)[0] == 204
    assert api.request("DELETE", "/api-keys/many")[0] == 204


def test_a_key_gives_no_longer_life_than_its_own(api):
    def ends(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + seconds))
    made = api.post("/api-keys", {"name": "hour", "permissions": [], "expiresAt": ends(3600)})
    head = {"Authorization": f"Bearer {made['value']}"}
    for more in ({}, {"expiresAt": None}, {"expiresAt": ends(7200)}):
        got, reply = api.request("POST", "/api-keys", {"name": "longer", "permissions": [], **more},
                                 headers=head)
        assert got == 403 and "expiresAt" in reply["message"], (more, got, reply)
    got, _ = api.request("POST", "/api-keys", {"name": "shorter", "permissions": [],
                                               "expiresAt": ends(60)}, headers=head)
    assert got == 200 or got == 201
    api.delete("/api-keys/shorter")
    api.delete("/api-keys/hour")


def test_a_deleted_key_ends_at_once(api):
    token = key_of(api, "brief", ["write:sandboxes", "delete:sandboxes"])
    head = {"Authorization": f"Bearer {token}"}
    conn = api.connect()
    assert api.request("GET", "/sandbox", headers=head, conn=conn)[0] == 200
    api.delete("/api-keys/brief")
    assert api.request("GET", "/sandbox", headers=head, conn=conn)[0] == 401
    conn.close()


def test_events_end_with_their_key(api, make):
    """What happens after a key's end is not told to who holds it."""
    token = key_of(api, "listener")
    mine, theirs = Events(api), Events(api, token)
    assert mine.accepted and theirs.accepted
    api.delete("/api-keys/listener")
    sandbox = make()["id"]
    mine.until("sandbox.created", lambda p: p["id"] == sandbox)
    theirs.ws.sock.settimeout(3)
    heard = []
    try:
        while len(heard) < 5:
            op, data = theirs.ws.recv()
            heard.append((op, data[:60]))
            if op == 8:
                break
    except (EOFError, OSError):
        pass
    assert not any(data[:2] == b"42" for _, data in heard), heard
    assert heard and heard[-1][0] == 8, heard


@pytest.mark.parametrize("token", ["", "x", NOBODY, None])
def test_events_want_a_key(api, token):
    ev = Events.__new__(Events)
    ev.ws = WebSocket(api, "/api/socket.io/?EIO=4&transport=websocket", key=False)
    assert ev.ws.status == 101
    ev.ws.recv()
    ev.ws.send("40" + ("" if token is None else json.dumps({"token": token})))
    op, data = ev.ws.recv()
    assert data[:2] == b"44", data


def test_an_event_socket_without_a_token_hears_nothing(api, make):
    ws = WebSocket(api, "/api/socket.io/?EIO=4&transport=websocket", key=False)
    ws.recv()
    ws.send('42["subscribe",{}]')
    make()
    ws.sock.settimeout(0.5)
    with pytest.raises(OSError):
        while True:
            op, data = ws.recv()
            assert data[:2] != b"42" and op != 8, data
