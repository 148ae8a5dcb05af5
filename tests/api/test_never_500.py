"""Whatever a caller puts into a field, a parameter or a path: an answer of 4xx or a success, in
time, and never the server's own fault."""
import json
import random

import pytest

import cli_daemon

VALUES = [None, True, 0, -1, 1 << 31, 1 << 63, -(1 << 63), 1.5, 1e308, "", "x", "-1", "\u65e5\u672c\u2615",
          "../../etc/passwd", "a\nb\r\nc: d", "x" * 5000, [], {}, [[]], {"a": {}}, [None], ["x"] * 2000,
          {"": ""}, {"a": "\x01\x7f"}, "%s%n", "'; DROP TABLE sandbox; --"]
TEXTS = ["", "%00", "%ff%fe", "..", "%2e%2e%2f", "-1", "1e308", "9223372036854775808", "%F0%9F%98%80",
         "a%0d%0aX:y", "x" * 3000, "%", "%zz", "'%22%3C", "null", "true", "[]", "*", "~", "%20"]
CALM = {200, 201, 204, 206, 400, 401, 403, 404, 405, 408, 409, 410, 413, 414, 415, 416, 422, 431, 501}


def documents():
    for name, prefix in (("daytona-control", ""), ("daytona-toolbox", "/toolbox/{sandboxId}"),
                         ("caisson", "/caisson")):
        with open(f"{cli_daemon.TOP}/openapi/{name}.json", encoding="utf-8") as f:
            yield prefix, json.load(f)


def built():
    for prefix, doc in documents():
        for path, methods in doc["paths"].items():
            for method, op in methods.items():
                if isinstance(op, dict) and op.get("x-caisson", {}).get("built") and method != "head":
                    yield doc, method.upper(), prefix + path, op


def schema_of(doc, op):
    try:
        s = op["requestBody"]["content"]["application/json"]["schema"]
    except KeyError:
        return None
    while "$ref" in s:
        s = doc["components"]["schemas"][s["$ref"].rsplit("/", 1)[1]]
    return s


def route(path, box, other="x"):
    for name in ("sandboxId", "sandboxIdOrName", "id"):
        path = path.replace("{%s}" % name, box)
    import re
    return re.sub(r"\{\w+\*?\}", other, path)


def begun(api, path):
    """The status of a reply that has no end, or the error."""
    conn = api.connect()
    conn.request("GET", f"/api{path}", None, {"Authorization": f"Bearer {api.key}"})
    reply = conn.getresponse()
    text = b"" if reply.status == 200 else reply.read()
    conn.close()
    return reply.status, json.loads(text) if text else None


def call(api, conn, method, path, body=None, head=None):
    endless = path.startswith("/caisson") and path.split("?")[0].endswith("/watch")
    status, reply = begun(api, path) if endless else \
        api.request(method, path, body, headers=head, conn=conn)
    assert status in CALM, (method, path, body if body is None else body[:200], status, reply)
    if status >= 400 and status != 416:
        assert isinstance(reply, dict) and reply["message"], (method, path, reply)
    if method == "POST" and path == "/sandbox" and status == 200:
        api.request("DELETE", f"/sandbox/{reply['id']}")
    return status


ROUTES = [pytest.param(d, m, p, o, id=f"{m} {p}") for d, m, p, o in built()
          if "socket.io" not in p and not p.endswith("/exec")]
# These change what the other rows need.
SPARED = {"deleteSandbox", "stopSandbox", "startSandbox", "deleteImage"}


@pytest.mark.parametrize("doc,method,path,op", ROUTES)
def test_strange_bodies(api, box, doc, method, path, op):
    schema = schema_of(doc, op)
    if not schema:
        pytest.skip("takes no JSON")
    conn = api.connect()
    good = {"command": "true", "code": "", "language": "python", "labels": {}, "name": "odd",
            "permissions": [], "paths": ["/etc/passwd"], "set": {}}
    good = {k: v for k, v in good.items() if k in schema.get("required", ())}
    for key in list(schema.get("properties", {})) + ["unknown"]:
        for value in VALUES:
            body = json.dumps({**good, key: value}).encode()
            call(api, conn, method, route(path, box), body)
    for text in (b"\xff", b"{}" * 3, b"[", b'{"a":1e999}', b"\0", b'{"a":"\\ud800"}', b" " * 1000):
        call(api, conn, method, route(path, box), text)
    conn.close()


@pytest.mark.parametrize("doc,method,path,op", ROUTES)
def test_strange_parameters(api, box, doc, method, path, op):
    if op["operationId"] in SPARED:
        pytest.skip("spared")
    params = [p["name"] for p in op.get("parameters", []) if p["in"] == "query"]
    conn = api.connect()
    for name in params + ["unknown"]:
        for text in TEXTS:
            rest = "".join(f"&{p}=%2Ftmp%2Fodd" for p in params
                           if p in ("path", "source", "destination") and p != name)
            head = {"Content-Length": "0"} if method == "POST" else None
            call(api, conn, method, f"{route(path, box)}?{name}={text}{rest}", head=head)
    for text in TEXTS:
        if text and "{" in path.replace("{sandboxId}", "").replace("{sandboxIdOrName}", ""):
            call(api, conn, method, route(path, box, text))
    conn.close()


@pytest.mark.parametrize("doc,method,path,op", ROUTES)
def test_strange_ids(api, doc, method, path, op):
    conn = api.connect()
    for text in TEXTS:
        if text and "{" in path:
            call(api, conn, method, route(path, text, text))
    conn.close()


def test_random_bytes_as_multipart(api, box):
    rng, conn = random.Random(7), api.connect()
    pieces = [b"--b", b"\r\n", b"--", b"Content-Disposition: form-data; name=\"files[0].path\"",
              b"Content-Disposition: form-data; name=\"files[0].file\"; filename=\"x\"", b"/tmp/odd",
              b"\0", b"\xff", b"; name=", b"\"", b":"]
    for _ in range(300):
        body = b"".join(rng.choice(pieces) for _ in range(rng.randrange(30)))
        for where in ("/files/bulk-upload", "/files/upload-v2?path=/tmp/odd"):
            call(api, conn, "POST", f"/toolbox/{box}{where}", body,
                 {"Content-Type": "multipart/form-data; boundary=b"})
    conn.close()


def test_documents_are_served(api):
    conn = api.connect()

    def get(path):
        conn.request("GET", path)
        reply = conn.getresponse()
        text = reply.read()
        assert reply.status == 200 and reply.getheader("Content-Type") == "application/json"
        return json.loads(text)
    index = json.dumps(get("/openapi.json"))
    for name in ("daytona-control", "daytona-toolbox", "caisson"):
        assert f"/openapi/{name}.json" in index
        with open(f"{cli_daemon.TOP}/openapi/{name}.json", encoding="utf-8") as f:
            assert get(f"/openapi/{name}.json") == json.load(f)
    conn.close()
