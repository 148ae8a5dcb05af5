"""Sessions, terminals and execs over the end of the api process, the daemon, and the sandbox."""
import http.client
import json
import threading
import uuid

import pytest

import cli_daemon
from prochelp import Session, Terminal, demux, drain, native
from resthelp import WebSocket, refused, wait_for
from test_restart import crash_api, wait_up


@pytest.fixture(scope="module")
def d():
    with cli_daemon.Daemon(on_exit="keep") as daemon:
        yield daemon


@pytest.fixture
def box(d):
    sb = d.create(autoStopInterval=0)
    yield sb["id"]
    d.request("DELETE", f"/sandbox/{sb['id']}")


def kill_both(d):
    d.kill("runner", "api")
    d.start()


def restart(d):
    d.stop()
    d.start()


ENDS = {"api killed": crash_api, "daemon killed": kill_both, "daemon restarted": restart}


def at(box, ident, rest=""):
    return native(box, f"/exec/{ident}{rest}")


def detach(d, box, command, key=None, **fields):
    head = {"Idempotency-Key": key} if key else {}
    status, got = d.request("POST", native(box, "/exec"), {"command": command, "detach": True, **fields},
                            headers=head)
    assert status in (200, 202), got
    return got


NUMBERS = "i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); [ $((i % 100)) = 0 ] && sleep 0.05; done"
WANT = "".join(f"line-{i}\n" for i in range(3000))


@pytest.mark.parametrize("end", ENDS)
def test_all_goes_on_byte_for_byte(d, box, end):
    s = Session(d, box)
    s.run("x=kept; cd /tmp")
    cmd = s.start(NUMBERS)
    ident = detach(d, box, NUMBERS)["id"]
    d.post(f"/toolbox/{box}/process/pty", {"id": "t"})
    t = Terminal(d, f"/toolbox/{box}/process/pty/t/connect")
    t.type("y=typed; echo re''ady\n")
    t.until("ready\r\n")
    first = d.get(at(box, ident, "/output"))["stdout"]
    ENDS[end](d)
    rest = d.get(at(box, ident, f"/output?stdout={len(first)}&follow=true"))
    assert first + rest["stdout"] == WANT and rest["exitCode"] == 0
    data, code, _ = drain(s.follow(cmd))
    assert demux(data) == (WANT.encode(), b"") and code == 1000
    assert s.out("echo $x; pwd") == "kept\n/tmp\n"
    t = Terminal(d, f"/toolbox/{box}/process/pty/t/connect")
    t.type("echo \"<$y>\"\n")
    t.until("<typed>")
    assert [x["id"] for x in d.get(f"/toolbox/{box}/process/pty")["sessions"]] == ["t"]
    d.request("DELETE", f"/toolbox/{box}/process/pty/t")
    assert s.delete()[0] == 204


def follow(d, path, got):
    """Events from where got ends on, added to it; yields after each read. True at the exit."""
    conn, rest = d.connect(), b""
    try:
        conn.request("GET", f"/api{path}?stdout={len(got)}&follow=true", headers={
            "Authorization": f"Bearer {d.key}", "Accept": "application/x-ndjson"})
        reply = conn.getresponse()
        while True:
            lines = (rest + reply.read1(65536)).split(b"\n")
            rest = lines.pop()
            for event in map(json.loads, lines):
                if event["type"] == "exit":
                    return True
                if event["type"] == "stdout":
                    assert event["offset"] == len(got)
                    got += event["data"].encode()
            if not lines:
                return False
            yield
    except (OSError, http.client.HTTPException):
        return False
    finally:
        conn.close()


def test_follower_that_is_cut_off_goes_on_at_its_offset(d, box):
    ident, got, kills = detach(d, box, NUMBERS)["id"], bytearray(), 0
    while True:
        reader, before = follow(d, at(box, ident, "/output"), got), len(got)
        while True:
            try:
                next(reader)
            except StopIteration as stop:
                ended = stop.value
                break
            if kills < 2 and len(got) > before:
                kills += 1
                d.kill("api")
        if ended:
            break
        wait_up(d)
    assert got.decode() == WANT and kills == 2


def test_key_finds_its_exec_again(d, box):
    key = str(uuid.uuid4())
    one = detach(d, box, "echo ran >> /tmp/count; echo out; exit 3", key)
    for end in ENDS.values():
        end(d)
        again = detach(d, box, "echo ran >> /tmp/count; echo out; exit 3", key)
        assert again["id"] == one["id"]
    status, whole = d.request("POST", native(box, "/exec"),
                              {"command": "echo ran >> /tmp/count; echo out; exit 3", "detach": True,
                               "maxOutput": 5}, headers={"Idempotency-Key": key})
    assert status == 409 and whole["code"] == "IDEMPOTENCY_KEY_REUSED", whole
    assert d.get(at(box, one["id"], "/output"))["stdout"] == "out\n"
    assert d.exec(box, "cat /tmp/count")["result"] == "ran\n"


@pytest.mark.parametrize("point,ran_by_then", [
    ("exec.after_key", False), ("exec.after_start", True),
])
def test_key_runs_once_when_the_daemon_dies_in_between(d, box, point, ran_by_then):
    d.stop()
    d.start(env={"CAISSON_CRASH_AT": point})
    key, body = str(uuid.uuid4()), {"command": "echo ran >> /tmp/count; sleep 0.3; echo end"}
    with pytest.raises(OSError):
        d.request("POST", native(box, "/exec"), body, headers={"Idempotency-Key": key})
    d.stop()
    d.start()
    assert d.exec(box, "cat /tmp/count 2>/dev/null")["result"] == ("ran\n" if ran_by_then else "")
    got = d.request("POST", native(box, "/exec"), body, headers={"Idempotency-Key": key})
    assert got[0] == 200 and got[1]["stdout"] == "end\n" and got[1]["exitCode"] == 0, got
    again = d.request("POST", native(box, "/exec"), body, headers={"Idempotency-Key": key})[1]
    assert again["id"] == got[1]["id"] and again["stdout"] == "end\n"
    assert d.exec(box, "cat /tmp/count")["result"] == "ran\n"


@pytest.mark.parametrize("point", ["process.after_note", "process.after_start"])
def test_session_that_was_being_made_is_made_or_made_anew(d, box, point):
    d.stop()
    d.start(env={"CAISSON_CRASH_AT": point})
    with pytest.raises(OSError):
        d.request("POST", f"/toolbox/{box}/process/session", {"sessionId": "s"})
    d.stop()
    d.start()
    status, _ = d.request("POST", f"/toolbox/{box}/process/session", {"sessionId": "s"})
    assert status == (201 if point == "process.after_note" else 409)
    assert d.post(f"/toolbox/{box}/process/session/s/exec", {"command": "echo ok"})["stdout"] == "ok\n"


def test_same_key_at_once_is_one_exec(d, box):
    key, ids = str(uuid.uuid4()), []
    threads = [threading.Thread(target=lambda: ids.append(
        detach(d, box, "echo ran >> /tmp/count; sleep 0.2", key)["id"])) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(ids) == 8 and len(set(ids)) == 1
    d.get(at(box, ids[0], "/wait"))
    assert d.exec(box, "cat /tmp/count")["result"] == "ran\n"


def test_deleted_exec_is_not_run_again_by_its_key(d, box):
    key = str(uuid.uuid4())
    one = detach(d, box, "echo ran >> /tmp/count", key)
    d.get(at(box, one["id"], "/wait"))
    d.delete(at(box, one["id"]))
    status, reply = d.request("POST", native(box, "/exec"), {"command": "echo ran >> /tmp/count",
                                                            "detach": True},
                              headers={"Idempotency-Key": key})
    assert status == 410 and one["id"] in reply["message"], reply
    assert d.exec(box, "cat /tmp/count")["result"] == "ran\n"


def test_a3_ids_of_before_a_stop_are_410_with_that_reason(d, box):
    toolbox, key = f"/toolbox/{box}/process", str(uuid.uuid4())
    s = Session(d, box, "s")
    cmd = s.run("echo x")["cmdId"]
    d.post(f"{toolbox}/pty", {"id": "t"})
    d.post(f"{toolbox}/pty", {"id": "lazy", "lazyStart": True})
    ident = detach(d, box, "sleep 1000")["id"]
    keyed = detach(d, box, "sleep 1000", key)
    d.post(f"/sandbox/{box}/stop")

    def gone():
        for path in (f"{toolbox}/session/s", f"{toolbox}/session/s/command/{cmd}",
                     f"{toolbox}/session/s/command/{cmd}/logs"):
            refused(d, 410, "GET", path, code="SESSION_ENDED", says="stopped")
        refused(d, 410, "POST", f"{toolbox}/session/s/exec", {"command": "echo y"},
                code="SESSION_ENDED", says="stopped")
        for name in ("t", "lazy"):
            refused(d, 410, "GET", f"{toolbox}/pty/{name}", says="stopped")
            refused(d, 410, "DELETE", f"{toolbox}/pty/{name}", says="stopped")
            assert WebSocket(d, f"{toolbox}/pty/{name}/connect").status == 410
        for path in ("", "/wait", "/output", "/output/stdout"):
            status, reply = d.request("GET", at(box, ident, path))
            assert status == 410 and "stopped" in reply["message"], reply
        status, lost = d.request("POST", native(box, "/exec"),
                                 {"command": "sleep 1000", "detach": True},
                                 headers={"Idempotency-Key": key})
        assert status == 200 and lost["id"] == keyed["id"] and lost["state"] == "lost", lost
        assert lost["exitCode"] is None and lost["cause"] == "lost"
    gone()
    status, reply = d.request("POST", f"{toolbox}/session", {"sessionId": "new"})
    assert status == 409 and reply["code"] == "SANDBOX_NOT_STARTED"
    d.post(f"/sandbox/{box}/start")
    gone()
    restart(d)
    gone()
    assert d.get(f"{toolbox}/session") == [] and d.get(f"{toolbox}/pty") == {"sessions": []}
    assert d.get(native(box, "/execs")) == {"items": []}
    # The names may be taken again, and then they are new.
    again = Session(d, box, "s")
    assert again.out("echo new") == "new\n"
    d.post(f"{toolbox}/pty", {"id": "t"})
    assert d.get(f"{toolbox}/pty/t")["active"] is True


def test_stop_under_waiting_clients_tells_them(d, box):
    s = Session(d, box)
    replies = {}
    t = Terminal(d, f"/toolbox/{box}/process/pty/create-connect?id=t")
    ident = detach(d, box, "sleep 1000")["id"]
    log = s.follow(s.start("echo x"))
    log2 = Session(d, box)
    log2 = log2.follow(log2.start("echo y; sleep 1000"))
    calls = {
        "sync": lambda: d.request("POST", f"{s.url}/exec", {"command": "sleep 1000"}),
        "wait": lambda: d.request("GET", at(box, ident, "/wait?timeoutMs=60000")),
        "attached": lambda: d.request("POST", native(box, "/exec"), {"command": "sleep 1000"}),
    }
    threads = [threading.Thread(target=lambda n=n, f=f: replies.update({n: f()}))
               for n, f in calls.items()]
    for thread in threads:
        thread.start()
    wait_for(lambda: d.get(s.url)["commands"] and "sleep 1000" in d.exec(box, "ps -o args")["result"])
    d.post(f"/sandbox/{box}/stop?force=true")
    for thread in threads:
        thread.join(20)
    for name, (status, reply) in replies.items():
        assert status == 410 and "stopped" in reply["message"], (name, status, reply)
    assert len(replies) == 3
    code, told = t.end()
    assert code == 1011 and told["exitCode"] == 137 and "stopped" in told["exitReason"]
    assert drain(log)[1] == 1000
    # What was cut off must not look like an end.
    data, code, why = drain(log2)
    assert demux(data)[0] == b"y\n" and code == 1011 and "stopped" in why


def test_deleted_sandbox_takes_its_processes_and_their_ids(d, box):
    s = Session(d, box)
    d.request("DELETE", f"/sandbox/{box}")
    wait_for(lambda: d.request("GET", f"/sandbox/{box}")[0] == 404)
    refused(d, 404, "GET", s.url)
