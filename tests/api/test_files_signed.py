"""Links that carry their right: one file, one verb, until their end, without a key."""
import base64
import hashlib
import hmac
import time
from urllib.parse import quote

import pytest

from resthelp import form
from test_files import fetch

PATH = "/tmp/signed dir/r\u00e9port.pdf"


def sign(key, verb, path, expires):
    mac = hmac.new(key.encode(), f"v1:files:{verb}:{path}:{expires}".encode(), hashlib.sha256)
    return "v1_" + base64.urlsafe_b64encode(mac.digest()).decode().rstrip("=")


def call(api, method, url, body=None, headers=None):
    conn = api.connect()
    conn.request(method, url, body, headers or {})
    reply = conn.getresponse()
    data = reply.read()
    conn.close()
    return reply.status, data


def link(key, box, verb, path, expires, route=None, slash="", **more):
    route = route or ("/files/download" if verb == "GET" else "/files/upload-v2")
    query = {"path": path, "expires": expires, "signature": sign(key, verb, path, expires), **more}
    return f"/toolbox/{box}{route}{slash}?" + "&".join(
        f"{k}={quote(str(v), safe='')}" for k, v in query.items())


@pytest.fixture
def key(api, box):
    api.post(f"/toolbox/{box}/files/upload-v2?path={quote(PATH)}", b"secret")
    return api.get(f"/sandbox/{box}/signing-key")


def test_the_key_is_made_once(api, box, key):
    assert len(key) == 32 and set(key) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
    assert api.get(f"/sandbox/{box}/signing-key") == key
    assert api.get(f"/preview/{box}/signing-key") == key


@pytest.mark.parametrize("life", [3600, None])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_link_downloads_without_a_key(api, box, key, life, slash):
    url = link(key, box, "GET", PATH, int(time.time()) + life if life else 0, slash=slash)
    assert call(api, "GET", url) == (200, b"secret")
    assert call(api, "HEAD", url) == (200, b"")
    status, data = call(api, "GET", url, headers={"Range": "bytes=1-2"})
    assert (status, data) == (206, b"ec")


def test_a_link_uploads_raw_and_as_a_form(api, box, key):
    url = link(key, box, "POST", "/tmp/in/data.bin", int(time.time()) + 60)
    assert call(api, "POST", url, b"raw")[0] == 200
    assert fetch(api, box, "/tmp/in/data.bin")[2] == b"raw"
    body, kind = form([("file", "x.bin", b"form")])
    assert call(api, "POST", url, body, {"Content-Type": kind})[0] == 200
    assert fetch(api, box, "/tmp/in/data.bin")[2] == b"form"


def test_a_link_opens_nothing_else(api, box, key, make):
    end = int(time.time()) + 60
    other = make()["id"]
    good = link(key, box, "GET", PATH, end)
    for url, method in (
            (good.replace("r%C3%A9port", "report"), "GET"), (good.replace(str(end), str(end + 1)), "GET"),
            (good.replace(str(end), "0"), "GET"), (good.replace(box, other), "GET"),
            (good[:-1] + ("A" if good[-1] != "A" else "B"), "GET"), (good[:-1], "GET"),
            (good.replace("/download", "/info"), "GET"), (good.replace("/download", "/upload-v2"), "POST"),
            (good.replace(f"expires={end}&", ""), "GET"), (good.replace(str(end), f"%2B{end}"), "GET"),
            (good.replace(box, "nope"), "GET"), (good.replace("signature=v1_", "signature="), "GET"),
            (link(key, box, "POST", PATH, end, "/files/download"), "GET"),
            (link(key, box, "GET", PATH, int(time.time()) - 1), "GET"),
            (link(key, box, "GET", PATH, "x"), "GET"), (link("", box, "GET", PATH, end), "GET")):
        status, data = call(api, method, url, b"" if method == "POST" else None)
        assert status == 401, (url, status, data)
        assert b"UNAUTHORIZED" in data
    assert call(api, "GET", good)[0] == 200


def test_a_link_is_no_way_around_a_wrong_key(api, box, key):
    url = link(key, box, "GET", PATH, 0)
    assert call(api, "GET", url, headers={"Authorization": "Bearer dtn_no"})[0] == 401


def test_errors_of_links_are_those_of_files(api, box, key):
    assert call(api, "GET", link(key, box, "GET", "/nope", 0))[0] == 404
    assert call(api, "POST", link(key, box, "POST", "/etc/passwd", 0), b"x")[0] == 403


def test_rotate_makes_links_void(api, make):
    box = make()["id"]
    old = api.get(f"/sandbox/{box}/signing-key")
    api.post(f"/toolbox/{box}/files/upload-v2?path=/tmp/x", b"x")
    assert call(api, "GET", link(old, box, "GET", "/tmp/x", 0))[0] == 200
    new = api.post(f"/sandbox/{box}/signing-key/rotate")
    assert new != old and api.get(f"/sandbox/{box}/signing-key") == new
    assert call(api, "GET", link(old, box, "GET", "/tmp/x", 0))[0] == 401
    assert call(api, "GET", link(new, box, "GET", "/tmp/x", 0))[0] == 200


def test_keys_are_for_who_may_write(api, box):
    made = api.post("/api-keys", {"name": "signer", "permissions": ["delete:sandboxes"]})
    headers = {"Authorization": f"Bearer {made['value']}"}
    assert call(api, "GET", f"/api/sandbox/{box}/signing-key", headers=headers)[0] == 403
    assert call(api, "POST", f"/api/sandbox/{box}/signing-key/rotate", headers=headers)[0] == 403
    assert call(api, "GET", f"/api/sandbox/{box}/signing-key")[0] == 401
    assert api.request("GET", "/sandbox/nope/signing-key")[0] == 404
