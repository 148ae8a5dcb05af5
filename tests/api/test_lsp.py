"""Language servers: contract 3.12, on those of the default image."""
import concurrent.futures
import json
import time
import urllib.parse

import pytest

import cli_daemon
from resthelp import refused, wait_for

IMAGE = cli_daemon.DEFAULT
GREETER = ("class Greeter:\n    def greet(self) -> str:\n        return 'hello'\n\n"
           "greeter = Greeter()\ngreeter.\n")
NONE = "LSP_SERVER_NOT_INITIALIZED"


class Lsp:
    def __init__(self, api, box, language, project):
        self.api, self.box, self.base = api, box, f"/toolbox/{box}/lsp"
        self.who = {"languageId": language, "pathToProject": project}

    def post(self, route, **fields):
        return self.api.post(f"{self.base}/{route}", {**self.who, **fields})

    def get(self, route, **query):
        return self.api.get(f"{self.base}/{route}?" + urllib.parse.urlencode({**self.who, **query}))

    def refused(self, status, route, code=None, says=(), **fields):
        return refused(self.api, status, "POST", f"{self.base}/{route}", {**self.who, **fields},
                       code=code, says=says)

    def names(self, path):
        return [s["name"] for s in self.get("document-symbols", uri=f"file://{path}")]

    def found(self, query):
        return sorted((s["name"], s["location"]["uri"].rsplit("/", 1)[1])
                      for s in self.get("workspacesymbols", query=query))

    def write(self, path, text):
        self.api.request("POST", f"/toolbox/{self.box}/files/upload-v2?" + urllib.parse.urlencode(
            {"path": path}), text.encode())


@pytest.fixture(scope="module")
def big(api):
    sb = api.create(autoStopInterval=0, cpu=2, memory=3, disk=3)
    return sb["id"]


@pytest.fixture(scope="module")
def python(api, big):
    lsp = Lsp(api, big, "python", "e2e-lsp-project")
    lsp.write("e2e-lsp-project/sample.py", GREETER)
    lsp.post("start")
    return lsp


@pytest.fixture(scope="module")
def typescript(api, big):
    lsp = Lsp(api, big, "typescript", "/home/daytona/ts")
    lsp.write("ts/tsconfig.json", '{"compilerOptions": {"strict": true}}')
    lsp.write("ts/shape.ts", "export interface Shape { area(): number }\n"
                             "export class Circle implements Shape {\n"
                             "  constructor(public radius: number) {}\n"
                             "  area() { return 3 * this.radius }\n}\n")
    lsp.write("ts/main.ts", "import { Circle } from './shape'\nconst one = new Circle(1)\none.\n")
    lsp.post("start")
    return lsp


def test_calls_before_start_say_so(api, box):
    lsp = Lsp(api, box, "python", "/tmp")
    for route in ("did-open", "did-close"):
        lsp.refused(400, route, code=NONE, uri="file:///etc/passwd")
    lsp.refused(400, "completions", code=NONE, uri="file:///x", position={"line": 0, "character": 0})
    lsp.refused(400, "stop", code=NONE)
    for path in ("document-symbols?uri=file:///x", "workspacesymbols?query=x"):
        refused(api, 400, "GET", f"{lsp.base}/{path}&languageId=python&pathToProject=/tmp",
                code=NONE)


def test_python_relative_paths_symbols_and_completions(python):
    uri = "file://e2e-lsp-project/sample.py"
    python.post("did-open", uri=uri)
    got = python.get("document-symbols", uri=uri)
    assert {"Greeter", "greet", "greeter"} <= {s["name"] for s in got}
    one = next(s for s in got if s["name"] == "Greeter")
    assert one["kind"] == 5
    assert one["location"]["uri"] == "file:///home/daytona/e2e-lsp-project/sample.py"
    assert one["location"]["range"]["start"] == {"line": 0, "character": 0}
    assert python.found("greet") == [("Greeter", "sample.py"), ("greet", "sample.py"),
                                     ("greeter", "sample.py")]
    got = python.post("completions", uri=uri, position={"line": 5, "character": 8},
                      context={"triggerKind": 2, "triggerCharacter": "."})
    assert "isIncomplete" in got
    item = next(i for i in got["items"] if i["label"].startswith("greet"))
    assert item["kind"] in (2, 3) and item["insertText"].startswith("greet"), item
    python.post("did-close", uri=uri)
    python.post("did-close", uri=uri)
    # The same folder by another name is the same project.
    again = Lsp(python.api, python.box, "python", "/home/daytona//./e2e-lsp-project/")
    assert "Greeter" in again.names("e2e-lsp-project/sample.py")


def test_what_changed_in_the_sandbox_is_seen(python):
    path = "e2e-lsp-project/change.py"
    python.write(path, "def before(): pass\n")
    python.post("did-open", uri=f"file://{path}")
    assert python.names(path) == ["before"]
    python.write(path, "def after(): pass\n\nclass New: pass\n")
    assert python.names(path) == ["after", "New"]
    assert python.found("new") == [("New", "change.py")]
    python.api.exec(python.box, f"rm {path}")
    assert python.found("after") == []
    python.post("did-close", uri=f"file://{path}")
    status, reply = python.api.request("GET", f"{python.base}/document-symbols?" +
                                       urllib.parse.urlencode({**python.who,
                                                               "uri": f"file://{path}"}))
    assert status == 404 and "uri: " in reply["message"], reply


def test_python_search_leaves_others_code_out_and_is_kept(python):
    for path in ("venv/lib/x.py", ".hidden/x.py", "node_modules/a/x.py", "pkg/sub/x.py"):
        python.write(f"e2e-lsp-project/{path}", "from os import path\ndef lookedFor(): pass\n")
    assert python.found("LOOKEDfor") == [("lookedFor", "x.py")]
    many = "".join(f"def f{i}(): pass\n" for i in range(200))
    for i in range(40):
        python.write(f"e2e-lsp-project/many/m{i}.py", many)
    began = time.monotonic()
    assert len(python.found("f19")) == 40 * 11
    first = time.monotonic() - began
    began = time.monotonic()
    assert len(python.found("f19")) == 40 * 11
    assert time.monotonic() - began < first / 2


def test_strange_names_and_contents(python):
    for name in ("a b%20c.py", "ünï#?.py", "tab\there.py"):
        python.write(f"e2e-lsp-project/odd/{name}", "def odd(): return '☕ \\ud83d'\n")
        assert python.names(f"e2e-lsp-project/odd/{name}") == ["odd"], name
    # Escaped by a client that knows URIs.
    assert python.names("/home/daytona/e2e-lsp-project/odd/%C3%BCn%C3%AF%23%3F.py") == ["odd"]
    python.api.exec(python.box, "printf 'x = 1\\n\\377\\376' > e2e-lsp-project/odd/bin.py")
    assert "x" in python.names("e2e-lsp-project/odd/bin.py")
    python.api.exec(python.box, "mkfifo e2e-lsp-project/odd/pipe.py;"
                                "truncate -s 5M e2e-lsp-project/odd/large.py")
    python.refused(400, "did-open", says="not a file", uri="file://e2e-lsp-project/odd/pipe.py")
    python.refused(413, "did-open", uri="file://e2e-lsp-project/odd/large.py")
    python.refused(400, "did-open", says="uri: ", uri="http://x/y.py")
    python.refused(400, "did-open", says="uri: ", uri="file://")
    python.refused(400, "completions", says="position.line: ", uri="file:///x",
                   position={"line": -1, "character": 0})
    python.refused(400, "completions", says="position: ", uri="file:///x", position=[])
    python.refused(400, "start", says="languageId: ", languageId="cobol")
    python.api.exec(python.box, "rm -r e2e-lsp-project/odd")


def test_typescript_symbols_search_and_completions(typescript):
    uri = "file:///home/daytona/ts/main.ts"
    assert ("Circle", "shape.ts") in typescript.found("Circle")  # nothing is open yet
    typescript.post("did-open", uri=uri)
    assert {"Shape", "Circle", "area"} <= set(typescript.names("ts/shape.ts"))
    got = typescript.post("completions", uri=uri, position={"line": 2, "character": 4})
    assert {"area", "radius"} <= {i["label"] for i in got["items"]}
    typescript.write("ts/main.ts", "import { Circle } from './shape'\nexport const two = 2\n")
    assert "two" in typescript.names("/home/daytona/ts/main.ts")
    typescript.post("did-close", uri=uri)


def test_javascript(api, big):
    lsp = Lsp(api, big, "javascript", "js")
    lsp.write("js/a.js", "function hello(name) { return name.length }\nconst text = 'x'\ntext.\n")
    lsp.post("start")
    assert "hello" in lsp.names("js/a.js")
    got = lsp.post("completions", uri="file://js/a.js", position={"line": 2, "character": 5})
    assert "toUpperCase" in {i["label"] for i in got["items"]}
    lsp.post("stop")
    lsp.refused(400, "did-open", code=NONE, uri="file://js/a.js")


def pids(api, box, name):
    return api.exec(box, f"pgrep -f {name} || true")["result"].split()


def test_start_is_idempotent_and_stop_ends_the_process(api, make):
    box = make()["id"]
    lsp = Lsp(api, box, "python", "/tmp")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: lsp.post("start"), range(8)))
    assert len(pids(api, box, "[/]pylsp")) == 1
    lsp.post("start")
    lsp.post("stop")
    assert pids(api, box, "[/]pylsp") == []
    lsp.refused(400, "stop", code=NONE)


def test_a_crash_is_reported_and_can_be_started_again(api, make):
    box = make()["id"]
    lsp = Lsp(api, box, "python", "p")
    lsp.write("p/a.py", "def a(): pass\n")
    lsp.post("start")
    assert lsp.names("p/a.py") == ["a"]
    api.exec(box, "pkill -9 -f '[/]pylsp'")
    says = wait_for(lambda: api.request("POST", f"{lsp.base}/did-open", {
        **lsp.who, "uri": "file://p/a.py"})[1])
    assert says["code"] == NONE and "killed by signal 9" in says["message"], says
    lsp.post("start")
    assert lsp.names("p/a.py") == ["a"]


def test_waiting_calls_learn_of_a_crash(api, make):
    box = make()["id"]
    lsp = Lsp(api, box, "python", "p")
    lsp.write("p/a.py", "def a(): pass\n")
    lsp.post("start")
    lsp.names("p/a.py")
    api.exec(box, "pkill -STOP -f '[/]pylsp'")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        reply = pool.submit(api.request, "GET", f"{lsp.base}/document-symbols?languageId=python&"
                                                "pathToProject=p&uri=file://p/a.py")
        # The request is on its way when the pipe of the stopped server holds it.
        time.sleep(0.3)
        api.exec(box, "pkill -9 -f '[/]pylsp'")
        status, body = reply.result(20)
    assert (status, body["code"]) in ((502, "LSP_SERVER_CRASHED"), (400, NONE)), body


def test_the_end_of_a_sandbox_ends_its_servers(api, make):
    sb = make()
    lsp = Lsp(api, sb["id"], "python", "")
    lsp.post("start")
    api.post(f"/sandbox/{sb['id']}/stop")
    lsp.refused(409, "did-open", uri="file:///etc/passwd")
    api.post(f"/sandbox/{sb['id']}/start")
    lsp.refused(400, "did-open", code=NONE, uri="file:///etc/passwd")
    lsp.post("start")
    lsp.write("x.py", "x = 1\n")
    assert lsp.names("x.py") == ["x"]


FAKE = """#!/usr/bin/python3 -u
import json, os, sys
mode = open(os.path.expanduser("~/mode")).read().strip()
def read():
    n = 0
    while (line := sys.stdin.buffer.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            n = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(n))
def send(obj, raw=None):
    body = raw if raw is not None else json.dumps(obj).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n%s" % (len(body), body))
    sys.stdout.buffer.flush()
def answer(m, result):
    send({"jsonrpc": "2.0", "id": m["id"], "result": result})
if mode == "die":
    sys.exit("no such luck")
m = read()
for i, (method, params) in enumerate([
        ("workspace/configuration", {"items": [{}, {}]}), ("client/registerCapability", {}),
        ("workspace/workspaceFolders", None), ("no/such", {}), ("window/workDoneProgress/create", {})]):
    send({"jsonrpc": "2.0", "id": f"q{i}", "method": method, "params": params})
got = [read() for _ in range(5)]
open(os.path.expanduser("~/answers"), "w").write(json.dumps(got))
answer(m, {"capabilities": {}})
while True:
    m = read()
    if m.get("method") == "textDocument/documentSymbol":
        if mode == "garbage":
            sys.stdout.buffer.write(b"Content-Length: x\\r\\n\\r\\n{}")
        elif mode == "badjson":
            send(None, b"{nonsense")
        elif mode == "huge":
            sys.stdout.buffer.write(b"Content-Length: 99999999999\\r\\n\\r\\n")
        elif mode == "error":
            send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": 1, "message": "bad\\nluck"}})
        elif mode == "odd":
            send({"jsonrpc": "2.0", "id": 10 ** 6, "result": []})
            send({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"message": "x"}})
            r = {"start": {"line": 1, "character": 2}, "end": {"line": 3, "character": -4}}
            answer(m, [5, {"name": 5}, {"name": "tree", "kind": 5, "range": r, "selectionRange": r,
                       "children": [{"name": "leaf", "kind": 6, "range": r}]},
                       {"name": "flat", "kind": 1, "location": {"uri": "file:///f", "range": r}}])
        sys.stdout.buffer.flush()
    elif m.get("method") == "shutdown":
        answer(m, None)
    elif m.get("method") == "exit":
        sys.exit(0)
"""


@pytest.fixture(scope="module")
def fake(api):
    """A sandbox whose pylsp is ours."""
    box = api.create(autoStopInterval=0)["id"]
    lsp = Lsp(api, box, "python", "/tmp")
    lsp.write("/home/daytona/fake", FAKE)
    api.exec(box, "sudo install -m 755 ~/fake /usr/local/bin/pylsp; echo 'x = 1' > /tmp/x.py")
    return lsp


def as_fake(fake, mode):
    fake.write("/home/daytona/mode", mode)
    fake.api.request("POST", f"{fake.base}/stop", fake.who)
    fake.post("start")


def symbols(fake):
    return fake.api.request("GET", f"{fake.base}/document-symbols?languageId=python&"
                                   "pathToProject=/tmp&uri=file:///tmp/x.py")


def test_requests_of_the_server_are_answered(fake, api):
    as_fake(fake, "odd")
    got = {m["id"]: m for m in json.loads(api.exec(fake.box, "cat ~/answers")["result"])}
    assert got["q0"]["result"] == [None, None]
    assert got["q1"] == {"jsonrpc": "2.0", "id": "q1", "result": None}
    assert got["q2"]["result"] == [{"uri": "file:///tmp", "name": "project"}]
    assert got["q3"]["error"]["code"] == -32601


def test_odd_answers_are_taken_as_far_as_they_go(fake):
    as_fake(fake, "odd")
    status, got = symbols(fake)
    assert status == 200 and [s["name"] for s in got] == ["tree", "leaf", "flat"]
    assert got[1]["location"] == {"uri": "file:///tmp/x.py", "range": {
        "start": {"line": 1, "character": 2}, "end": {"line": 3, "character": 0}}}
    assert got[2]["location"]["uri"] == "file:///f"
    as_fake(fake, "error")
    status, got = symbols(fake)
    assert status == 502 and "bad luck" in got["message"], got


@pytest.mark.parametrize("mode", ["garbage", "badjson", "huge"])
def test_a_broken_protocol_ends_the_server(fake, mode):
    as_fake(fake, mode)
    status, got = symbols(fake)
    assert (status, got["code"]) == (502, "LSP_SERVER_CRASHED"), got
    fake.refused(400, "did-open", code=NONE, says="malformed", uri="file:///tmp/x.py")
    as_fake(fake, "odd")
    assert symbols(fake)[0] == 200


def test_a_server_that_does_not_start_says_why(fake, api, box):
    fake.write("/home/daytona/mode", "die")
    fake.api.request("POST", f"{fake.base}/stop", fake.who)
    fake.refused(502, "start", says="no such luck")
    fake.refused(400, "did-open", code=NONE, uri="file:///tmp/x.py")
    fake.refused(404, "start", says="pathToProject: ", pathToProject="/nope")
    refused(api, 404, "POST", f"/toolbox/{'0' * 8}-0000-4000-8000-{'0' * 12}/lsp/start",
            {"languageId": "python", "pathToProject": "/tmp"})


def test_servers_of_a_sandbox_are_bounded(fake, api):
    as_fake(fake, "odd")
    api.exec(fake.box, "mkdir -p /tmp/{1..9}")
    status = [api.request("POST", f"{fake.base}/start",
                          {"languageId": "python", "pathToProject": f"/tmp/{i}"})[0]
              for i in range(1, 10)]
    assert status == [200] * 7 + [400] * 2


def test_a_restart_of_the_daemon_ends_servers_and_says_so(api, make):
    box = make()["id"]
    lsp = Lsp(api, box, "python", "p")
    lsp.write("p/a.py", "def a(): pass\n")
    lsp.post("start")
    old = api.pids()["api"]
    api.kill("api")
    wait_for(lambda: api.pids().get("api") not in (None, old), 60)
    api.wait_ready()
    lsp.refused(400, "did-open", code=NONE, uri="file://p/a.py")
    wait_for(lambda: pids(api, box, "[/]pylsp") == [])
    lsp.post("start")
    assert lsp.names("p/a.py") == ["a"]
