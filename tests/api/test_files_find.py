"""Searching text and names, replacing text, names of owners: the contract's replies, bounded."""
import os
from urllib.parse import quote

import pytest

from resthelp import refused


def url(box, route, **query):
    text = "&".join(f"{k}={quote(str(v), safe='')}" for k, v in query.items())
    return f"/toolbox/{box}/files{route}" + (f"?{text}" if text else "")


def sh(api, box, text):
    got = api.post(f"/toolbox/{box}/process/execute", {"command": text})
    assert got["exitCode"] == 0, got
    return got["result"]


@pytest.fixture(scope="module")
def tree(api, box):
    sh(api, box, "mkdir -p /tmp/t/sub/deep; cd /tmp/t; printf 'one\\ntwo needle\\nthree\\n' > a.txt;"
       "printf 'needle\\nneedle needle\\n' > sub/b.txt; printf 'needle\\0' > sub/bin;"
       "printf 'x\\r\\nlast needle' > sub/deep/c.md; ln -s /tmp/t/sub link; echo > .hidden.txt")
    return "/tmp/t"


@pytest.mark.parametrize("slash", ["", "/"])
def test_find_tells_file_line_and_content(api, box, tree, slash):
    got = api.get(url(box, "/find" + slash, path=tree, pattern="needle"))
    assert sorted((m["file"], m["line"], m["content"]) for m in got) == [
        ("/tmp/t/a.txt", 2, "two needle"), ("/tmp/t/sub/b.txt", 1, "needle"),
        ("/tmp/t/sub/b.txt", 2, "needle needle"), ("/tmp/t/sub/deep/c.md", 2, "last needle")]
    assert api.get(url(box, "/find", path=tree + "/a.txt", pattern="needle"))[0]["line"] == 2
    assert api.get(url(box, "/find", path=tree, pattern="absent")) == []
    # No pattern language: a text is a text.
    assert api.get(url(box, "/find", path=tree, pattern="need.e")) == []


def test_find_works_from_the_working_directory(api, box):
    sh(api, box, "mkdir -p rel; echo 'a \u65e5 needle' > rel/f")
    got = api.get(url(box, "/find", path="rel", pattern="\u65e5"))
    assert len(got) == 1 and got[0]["content"] == "a \u65e5 needle"
    assert got[0]["file"].startswith("/") and got[0]["file"].endswith("/rel/f")


@pytest.mark.parametrize("slash", ["", "/"])
def test_search_takes_shell_patterns_on_names(api, box, tree, slash):
    def found(pattern):
        return sorted(api.get(url(box, "/search" + slash, path=tree, pattern=pattern))["files"])
    assert found("*.txt") == ["/tmp/t/.hidden.txt", "/tmp/t/a.txt", "/tmp/t/sub/b.txt"]
    assert found("?.[mt]*") == ["/tmp/t/a.txt", "/tmp/t/sub/b.txt", "/tmp/t/sub/deep/c.md"]
    assert found("deep") == ["/tmp/t/sub/deep"]
    assert found("sub/*") == []


def test_searches_of_everything_end(api, box):
    assert "/etc/passwd" in api.get(url(box, "/search", path="/", pattern="passwd"))["files"]
    got = api.get(url(box, "/find", path="/etc", pattern="daytona"))
    assert any(m["file"] == "/etc/passwd" for m in got)


@pytest.mark.parametrize("route,query,status,says", [
    ("/find", {"path": "/tmp"}, 400, "pattern: is required"),
    ("/find", {"pattern": "x"}, 400, "path: is required"),
    ("/find", {"path": "/nope", "pattern": "x"}, 404, "path: "),
    ("/find", {"path": "/dev/zero", "pattern": "x"}, 400, "path: "),
    ("/find", {"path": "/tmp", "pattern": "a\nb"}, 400, "pattern: must be one line"),
    ("/search", {"path": "/tmp", "pattern": "["}, 400, "pattern: "),
    ("/search", {"path": "/etc/passwd", "pattern": "x"}, 409, "path: "),
    ("/search", {"path": "/root", "pattern": "x"}, 403, "path: "),
])
def test_searches_say_what_is_wrong(api, box, route, query, status, says):
    refused(api, status, "GET", url(box, route, **query), says=says)


@pytest.mark.parametrize("slash", ["", "/"])
def test_replace_tells_each_file_by_its_absolute_path(api, box, slash):
    sh(api, box, "mkdir -p r; printf 'old old\\nxoldx' > r/a; echo none > r/b; printf old > r/c;"
       "chmod 640 r/a")
    home = sh(api, box, "pwd").strip()
    got = api.post(url(box, "/replace" + slash),
                   {"files": ["r/a", f"{home}/r/b", "r/nope", "/etc/passwd", "r"],
                    "pattern": "old", "newValue": "n\u00e9w"})
    assert [(r["file"], r["success"]) for r in got] == [
        (f"{home}/r/a", True), (f"{home}/r/b", True), (f"{home}/r/nope", False),
        ("/etc/passwd", True), (f"{home}/r", False)]
    assert [bool(r["error"]) for r in got] == [False, False, True, False, True]
    assert sh(api, box, "cat r/a") == "n\u00e9w n\u00e9w\nxn\u00e9wx"
    assert sh(api, box, "stat -c %a r/a; cat r/b r/c") == "640\nnone\nold"
    got = api.post(url(box, "/replace"), {"files": ["/etc/passwd"], "pattern": "root",
                                          "newValue": "x"})
    assert got[0]["success"] is False and "ermission denied" in got[0]["error"]


def test_replace_is_right_at_every_cut(api, box):
    word = "0123456789"
    parts = [os.urandom(200).hex() * 200 for _ in range(20)]
    text = word.join(parts)
    api.post(url(box, "/upload-v2", path="/tmp/big"), text.encode())
    got = api.post(url(box, "/replace"), {"files": ["/tmp/big"], "pattern": word, "newValue": ""})
    assert got == [{"file": "/tmp/big", "success": True, "error": ""}]
    api.post(url(box, "/upload-v2", path="/tmp/want"), "".join(parts).encode())
    sh(api, box, "cmp /tmp/big /tmp/want")
    # An occurrence in what was put in is not one.
    api.post(url(box, "/upload-v2", path="/tmp/aa"), b"a" * 100001)
    api.post(url(box, "/replace"), {"files": ["/tmp/aa"], "pattern": "aa", "newValue": "aaa"})
    assert sh(api, box, "stat -c %s /tmp/aa") == "150001\n"


@pytest.mark.parametrize("body,says", [
    ({}, "files: is required"), ({"files": [], "pattern": "x", "newValue": ""}, "files: "),
    ({"files": ["a"], "pattern": "", "newValue": ""}, "pattern: "),
    ({"files": ["a"], "pattern": "x"}, "newValue: is required"),
    ({"files": [1], "pattern": "x", "newValue": ""}, "files"),
])
def test_replace_refusals(api, box, body, says):
    refused(api, 400, "POST", url(box, "/replace"), body, says=says)


def test_permissions_take_names_and_ids(api, box):
    sh(api, box, "echo > /tmp/own")
    for owner, group in (("daytona", "daytona"), ("1000", "1000"), ("", "daytona")):
        api.post(url(box, "/permissions/", path="/tmp/own", mode="0600", owner=owner, group=group))
        got = api.get(url(box, "/info", path="/tmp/own"))
        assert (got["owner"], got["group"], got["permissions"]) == ("1000", "1000", "0600")
    refused(api, 403, "POST", url(box, "/permissions", path="/tmp/own", owner="root"), says="path: ")
    refused(api, 400, "POST", url(box, "/permissions", path="/tmp/own", owner="nobody-here"),
            says="owner: ")


def test_listing_by_depth(api, box, tree):
    def names(**query):
        return sorted(e["path"] for e in api.get(url(box, "", path=tree, **query)))
    assert "/tmp/t/sub/b.txt" not in names()
    assert "/tmp/t/sub/b.txt" in names(depth=2) and "/tmp/t/sub/deep/c.md" not in names(depth=2)
    assert "/tmp/t/sub/deep/c.md" in names(depth=3)
    refused(api, 400, "GET", url(box, "", path=tree, depth=0), says="depth: ")


@pytest.mark.parametrize("method,route,query,body", [
    ("GET", "", {"path": "/tmp"}, None), ("GET", "/info", {"path": "/tmp"}, None),
    ("POST", "/folder", {"path": "/tmp/sl", "mode": "0755"}, None),
    ("POST", "/upload-v2", {"path": "/tmp/sl/f"}, b"x"),
    ("POST", "/upload", {"path": "/tmp/sl/g"}, b"x"),
    ("GET", "/download", {"path": "/tmp/sl/f"}, None),
    ("POST", "/move", {"source": "/tmp/sl/f", "destination": "/tmp/sl/h"}, None),
    ("POST", "/permissions", {"path": "/tmp/sl/h", "mode": "600"}, None),
    ("POST", "/bulk-download", {}, {"paths": ["/tmp/sl/h"]}),
    ("DELETE", "", {"path": "/tmp/sl", "recursive": "true"}, None),
])
def test_every_route_takes_a_slash_at_its_end(api, box, method, route, query, body):
    status, _ = api.request(method, url(box, route + "/", **query), body)
    assert status in (200, 201, 204)
