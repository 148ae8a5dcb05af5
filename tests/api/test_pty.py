"""Terminals over WebSockets: bytes, sizes, ends, several clients, and clients that misbehave."""
import base64
import json
import socket
import threading
import time

import pytest

import cli_daemon
from prochelp import Terminal, native, ps
from resthelp import WebSocket, refused, wait_for

IMAGE = cli_daemon.DEFAULT  # bash: the line editor of busybox takes an interrupted read for the end
EXIT = "X-Daytona-Pty-Exit-Control"


def base(box):
    return f"/toolbox/{box}/process/pty"


def envs(pairs):
    text = base64.urlsafe_b64encode(json.dumps(pairs).encode()).rstrip(b"=").decode()
    return f"X-Daytona-Pty-Envs~{text}"


@pytest.fixture
def term(api, box, request):
    """A terminal of its own with one client; the shell prints no prompt."""
    name = request.node.name[:100].replace("/", "_")
    t = Terminal(api, f"{base(box)}/create-connect?id={name}&cols=80&rows=24",
                 [EXIT, envs({"PS1": ""})])
    t.name = name
    t.type("stty -echo; PS1=; echo re''ady\n")
    t.until("ready\r\n")
    t.out.clear()
    yield t
    t.close()
    api.request("DELETE", f"{base(box)}/{name}")


def test_create_connect_runs_a_login_shell(api, box):
    t = Terminal(api, f"{base(box)}/create-connect?id=first&cols=100&rows=30&cwd=/tmp",
                 [envs({"E": "'x y' \u2615"}), EXIT])
    assert t.first == {"type": "control", "status": "connected"}
    t.type("echo \"=$E=$TERM=$PWD=$-=\"; stty size; tty\n")
    got = t.until("/dev/pts/").decode()
    assert "='x y' \u2615=xterm-256color=/tmp=" in got and "30 100" in got
    info = api.get(f"{base(box)}/first")
    assert info == {**info, "id": "first", "cols": 100, "rows": 30, "cwd": "/tmp", "active": True,
                    "envs": {"E": "'x y' \u2615"}, "lazyStart": False}
    assert info in api.get(base(box))["sessions"]
    t.type("exit 4\n")
    code, told = t.end()
    assert (code, told) == (1011, {"type": "control", "status": "exited", "exitCode": 4})
    assert json.loads(t.closed[1]) == {"exitCode": 4}
    refused(api, 404, "GET", f"{base(box)}/first", code="PROCESS_NOT_FOUND")
    assert all(x["id"] != "first" for x in api.get(base(box))["sessions"])


def test_exit_zero_closes_with_1000_and_no_control_unless_offered(api, box):
    t = Terminal(api, f"{base(box)}/create-connect?id=zero&cols=80&rows=24", [envs({})])
    t.type("exit\n")
    assert t.end() == (1000, None) and json.loads(t.closed[1]) == {"exitCode": 0}


def test_size_defaults_and_name_is_free_after_the_end(api, box):
    for _ in range(2):
        t = Terminal(api, f"{base(box)}/create-connect?id=again")
        t.type("stty size; exit\n")
        t.end()
        assert b"24 80" in t.out


def test_taken_name_is_409_before_the_upgrade(api, box, term):
    ws = WebSocket(api, f"{base(box)}/create-connect?id={term.name}", protocols=[EXIT])
    assert ws.status == 409
    refused(api, 409, "POST", base(box), {"id": term.name}, says="exists already")


@pytest.mark.parametrize("query,status", [
    ("id=", 400), ("", 400), ("id=x&cols=0x5", 400), ("id=x&cols=1001", 400), ("id=x&rows=-1", 400),
    ("id=a%2Fb", 400), ("id=x&cwd=/nope", 404), ("id=x&cwd=/etc/passwd", 400),
])
def test_a40_bad_requests_have_a_status(api, box, query, status):
    ws = WebSocket(api, f"{base(box)}/create-connect?{query}", protocols=[EXIT])
    assert 400 <= ws.status < 500 and (ws.status == status or "cwd" in query), ws.status


def test_bad_environment_is_400(api, box):
    for offer in ("X-Daytona-Pty-Envs~***", envs([]), envs({"1A": "x"}), envs({"A": 5}),
                  "X-Daytona-Pty-Envs~" + base64.urlsafe_b64encode(b"{}\0").decode().rstrip("=")):
        ws = WebSocket(api, f"{base(box)}/create-connect?id=bad", protocols=[offer, EXIT])
        assert ws.status == 400, offer
    assert all(x["id"] != "bad" for x in api.get(base(box))["sessions"])


@pytest.mark.parametrize("body,says", [
    ({}, "id: is required"), ({"id": 5}, "id: "), ({"id": "x", "cols": 1001}, "cols: "),
    ({"id": "x", "envs": {"A=": "b"}}, "envs"), ({"id": "x", "cwd": "/nope"}, "/nope"),
])
def test_a30_bad_create_is_4xx(api, box, body, says):
    status, reply = api.request("POST", base(box), body)
    assert 400 <= status < 500 and says in reply["message"], reply


def test_post_then_connect(api, box):
    assert api.request("POST", base(box), {"id": "posted", "cols": 90, "rows": 20}) == (
        201, {"sessionId": "posted"})
    t = Terminal(api, f"{base(box)}/posted/connect")
    t.type("stty size\n")
    t.until("20 90")
    t.close()
    assert api.request("DELETE", f"{base(box)}/posted")[0] == 200
    for method, path, body in (("GET", "", None), ("DELETE", "", None)):
        assert api.request(method, f"{base(box)}/posted{path}", body)[0] in (404, 410)
    assert WebSocket(api, f"{base(box)}/posted/connect", protocols=[EXIT]).status == 404


def test_lazy_start_begins_with_the_first_client(api, box):
    api.post(base(box), {"id": "lazy", "lazyStart": True, "envs": {"L": "1"}, "cwd": "/tmp"})
    info = api.get(f"{base(box)}/lazy")
    assert info["active"] is False and info["lazyStart"] is True and info["cwd"] == "/tmp"
    got = api.post(f"{base(box)}/lazy/resize", {"cols": 50, "rows": 10})
    assert (got["cols"], got["rows"]) == (50, 10)
    t = Terminal(api, f"{base(box)}/lazy/connect")
    t.type("echo \"L$L\"; stty size; pwd\n")
    assert b"10 50" in t.until("\r\n/tmp\r\n") and b"L1\r\n" in t.out
    assert api.get(f"{base(box)}/lazy")["active"] is True
    assert api.request("DELETE", f"{base(box)}/lazy")[0] == 200
    assert t.end()[1]["exitCode"] == 137


def test_lazy_one_that_nobody_used_is_deleted(api, box):
    api.post(base(box), {"id": "unused", "lazyStart": True})
    assert api.request("DELETE", f"{base(box)}/unused")[0] == 200
    refused(api, 404, "GET", f"{base(box)}/unused")


def test_waiting_lazy_ones_are_bounded(api, make):
    box = make()["id"]
    for i in range(64):
        api.post(base(box), {"id": f"lazy{i}", "lazyStart": True})
    refused(api, 400, "POST", base(box), {"id": "more", "lazyStart": True}, says="limit of 64")
    api.delete(f"{base(box)}/lazy0")
    api.post(base(box), {"id": "more", "lazyStart": True})


def test_one_of_two_first_clients_starts_a_lazy_one(api, box):
    api.post(base(box), {"id": "both", "lazyStart": True})
    got = []
    threads = [threading.Thread(target=lambda: got.append(
        Terminal(api, f"{base(box)}/both/connect"))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [t.ws.status for t in got] == [101] * 4
    got[0].type("echo a''b\n")
    for t in got:
        t.until("ab\r\n")
    api.request("DELETE", f"{base(box)}/both")
    for t in got:
        assert t.end()[1]["exitCode"] == 137


def test_a50_kill_gives_137_and_reaches_the_tree(api, box, term):
    term.type("sleep 7210 & setsid sleep 7211 & echo st''arted\n")
    term.until("started")
    assert api.request("DELETE", f"{base(box)}/{term.name}")[0] == 200
    code, told = term.end()
    assert code == 1011 and told["exitCode"] == 137
    assert "sleep 721" not in ps(api, box)
    assert api.request("DELETE", f"{base(box)}/{term.name}")[0] in (404, 410)


def test_resize_last_one_wins_and_is_410_after_the_end(api, box, term):
    term.type("trap 'stty size' WINCH\n")
    for cols in (100, 120):
        got = api.post(f"{base(box)}/{term.name}/resize", {"cols": cols, "rows": 40})
        assert (got["cols"], got["rows"]) == (cols, 40)
    term.type("stty size\n")
    term.until("40 120")
    for bad in ({"cols": 0, "rows": 5}, {"cols": 5}, {"cols": "5", "rows": 5}, {"cols": 1001, "rows": 1}):
        refused(api, 400, "POST", f"{base(box)}/{term.name}/resize", bad)
    term.type("exit\n")
    term.end()
    refused(api, 410, "POST", f"{base(box)}/{term.name}/resize", {"cols": 5, "rows": 5})
    refused(api, 404, "POST", f"{base(box)}/nosuch/resize", {"cols": 5, "rows": 5})


def test_survives_its_client(api, box, term):
    term.type("x=kept; cd /tmp\n")
    term.close()
    t = Terminal(api, f"{base(box)}/{term.name}/connect")
    t.type("echo \"$x $PWD\"\n")
    t.until("kept /tmp\r\n")
    t.close()


def test_connect_begins_with_what_comes_next(api, box, term):
    term.type("echo be''fore\n")
    term.until("before")
    t = Terminal(api, f"{base(box)}/{term.name}/connect")
    term.type("echo af''ter\n")
    t.until("after")
    assert b"before" not in t.out
    t.close()


def test_several_clients_see_and_type(api, box, term):
    others = [Terminal(api, f"{base(box)}/{term.name}/connect") for _ in range(3)]
    for i, t in enumerate(others):
        t.type(f"echo from''{i}\n")
        for seen in [term, *others]:
            seen.until(f"from{i}\r\n")
    term.type("exit 2\n")
    for t in [term, *others]:
        assert t.end()[1]["exitCode"] == 2


def test_native_connect_takes_an_offset(api, box, term):
    term.type("echo be''fore\n")
    term.until("before\r\n")
    path = f"/api{native(box)}/terminals/{term.name}/connect"
    t = Terminal(api, f"{path}?offset=0")
    assert t.first == {"type": "control", "status": "connected", "offset": 0}
    t.until("before\r\n")
    at = len(t.out)
    t.close()
    term.type("echo af''ter\n")
    term.until("after\r\n")
    t = Terminal(api, f"{path}?offset={at}")
    assert t.first["offset"] == at
    rest = t.until("after\r\n")
    assert b"before" not in rest
    whole = Terminal(api, f"{path}?offset=0")
    assert whole.until("after\r\n")[at:] == rest[:len(whole.out) - at]
    t.close()
    whole.close()
    assert WebSocket(api, f"{path}?offset=999999999").status in (101, 400)
    assert WebSocket(api, f"{path}?offset=-1").status == 400


def test_text_and_binary_are_input_byte_for_byte(term):
    term.type("stty raw; head -c 300 | od -An -v -tu1 | tr -s ' \\n' '  '; stty sane -echo; echo do''ne\n")
    time.sleep(0.3)
    term.ws.send("text" * 11)
    term.type(bytes(range(256)))
    got = term.until("done").decode().split("done")[0].split()
    assert [int(x) for x in got[-300:]] == list(b"text" * 11 + bytes(range(256)))


def test_too_large_a_message_is_1009(api, box, term):
    t = Terminal(api, f"{base(box)}/{term.name}/connect")
    t.type(b"x" * 70000)
    assert t.end()[0] == 1009


@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 65537, 1000001])
def test_a15_a16_last_bytes_come_before_the_exit(api, box, n):
    t = Terminal(api, f"{base(box)}/create-connect?id=tail{n}", [EXIT, envs({"PS1": ""})])
    t.type(f"stty -echo -opost; PS1=; printf '<'; head -c {n} /dev/zero | tr '\\0' x; printf '>'; exec true\n")
    code, told = t.end()
    assert code == 1000 and told["exitCode"] == 0
    body = t.out.rsplit(b"<", 1)[1]
    assert body == b"x" * n + b">", (len(body), n)


def test_a15_every_line_fifty_times(api, box):
    for i in range(20):
        t = Terminal(api, f"{base(box)}/create-connect?id=lines{i}", [EXIT, envs({"PS1": ""})])
        t.type("stty -echo -opost; PS1=; exec seq 1 20000\n")
        t.end()
        want = b"".join(b"%d\n" % k for k in range(1, 20001))
        assert t.out.endswith(want), (i, t.out[-100:])


def test_a8_exit_comes_though_others_hold_the_terminal(api, box, term):
    term.type("(trap '' HUP; exec sleep 7220) & echo st''arted\n")
    term.until("started")
    began = time.monotonic()
    term.type("exit 5\n")
    assert term.end()[1]["exitCode"] == 5 and time.monotonic() - began < 5
    api.exec(box, "pkill -f 'sleep 7220'; true")


def test_client_that_does_not_read_is_closed_with_1008(api, box, term):
    t = Terminal(api, f"{base(box)}/{term.name}/connect", timeout=60)
    term.type("head -c 40000000 /dev/zero | tr '\\0' y; echo o''ver\n")
    seen = []
    reader = threading.Thread(target=lambda: seen.append(term.until("over", 60)))
    reader.start()
    time.sleep(9)  # the client under test reads nothing meanwhile: that is what is tested
    code = None
    while code is None:
        t.step()
        code = t.closed and t.closed[0]
    assert code == 1008
    reader.join(60)
    assert seen, "another client was held up"


def test_a38_clients_that_resize_type_and_close_at_once(api, box, term):
    def worker(i):
        t = Terminal(api, f"{base(box)}/{term.name}/connect")
        for k in range(5):
            t.type(f"# {i} {k}\n")
            api.request("POST", f"{base(box)}/{term.name}/resize", {"cols": 20 + i, "rows": 5 + k})
        t.close()
    threads = [threading.Thread(target=worker, args=(i,)) for i in range(50)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    term.type("echo st''ill\n")
    term.until("still")
    assert api.get("/health")["status"]


def test_needs_an_upgrade(api, box):
    for path in (f"{base(box)}/create-connect?id=x", f"{base(box)}/x/connect",
                 f"{native(box)}/terminals/x/connect"):
        assert api.request("GET", path)[0] == 400


def test_a26_client_gone_during_the_start_leaves_nothing_stuck(api, box):
    for i in range(40):
        s = socket.create_connection(("127.0.0.1", api.port))
        s.sendall((f"GET {base(box)}/create-connect?id=gone{i} HTTP/1.1\r\nHost: x\r\n"
                   f"Authorization: Bearer {api.key}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
                   ).encode())
        s.close()
    time.sleep(0.2)

    def gone():
        for x in api.get(base(box))["sessions"]:
            if x["id"].startswith("gone"):
                api.request("DELETE", f"{base(box)}/{x['id']}")
        return not [x for x in api.get(base(box))["sessions"] if x["id"].startswith("gone")]
    wait_for(gone)
