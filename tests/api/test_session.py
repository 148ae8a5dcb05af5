"""Sessions: a shell that keeps its state, commands in order, their ends and the session's."""
import threading
import time

import pytest

from prochelp import Session, ps, raw_request
from resthelp import refused, wait_for


@pytest.fixture
def s(api, box):
    session = Session(api, box)
    yield session
    session.delete()


def base(box):
    return f"/toolbox/{box}/process/session"


def test_state_persists(s):
    assert s.run("cd /tmp; export A='x y'; b=2; f() { echo \"f $1 $b\"; }")["exitCode"] == 0
    got = s.run('pwd; echo "$A"; f 1; sh -c "echo $A"')
    assert got["stdout"] == "/tmp\nx y\nf 1 2\nx y\n" and got["exitCode"] == 0


def test_streams_are_apart_and_together(s):
    got = s.run("echo out; echo err >&2; exit_code() { return 5; }; exit_code")
    assert (got["stdout"], got["stderr"], got["exitCode"]) == ("out\n", "err\n", 5)
    assert sorted(got["output"].split()) == ["err", "out"]


def test_create_and_names(api, box):
    s = Session(api, box, "twice")
    refused(api, 409, "POST", base(box), {"sessionId": "twice"}, says="exists already")
    assert s.delete() == (204, None)
    again = Session(api, box, "twice")
    assert again.out("echo new") == "new\n"
    again.delete()
    refused(api, 404, "GET", f"{base(box)}/twice", code="PROCESS_NOT_FOUND")
    refused(api, 404, "DELETE", f"{base(box)}/never", code="PROCESS_NOT_FOUND")
    for name in ("entrypoint", "a/b", "a\nb", "", "x" * 256):
        refused(api, 400, "POST", base(box), {"sessionId": name}, says="sessionId")


def test_one_of_racing_creates_wins(api, box):
    got = []
    threads = [threading.Thread(target=lambda: got.append(
        api.request("POST", base(box), {"sessionId": "race"})[0])) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(got) == [201] + [409] * 7
    api.request("DELETE", f"{base(box)}/race")


def test_list_and_get_show_commands(api, box, s):
    a = s.run("echo one")["cmdId"]
    b = s.start("sleep 100")
    got = api.get(s.url)
    assert got == {"sessionId": s.name, "commands": [
        {"id": a, "command": "echo one", "exitCode": 0}, {"id": b, "command": "sleep 100"}]}
    assert got in api.get(base(box))
    assert all(x["sessionId"] != "entrypoint" for x in api.get(base(box)))
    assert s.command(b) == {"id": b, "command": "sleep 100"}
    other = Session(api, box)
    refused(api, 404, "GET", f"{other.url}/command/{a}", code="PROCESS_NOT_FOUND")
    refused(api, 404, "GET", f"{s.url}/command/nope", code="PROCESS_NOT_FOUND")
    other.delete()


def test_entrypoint_is_there_and_empty(api, box):
    assert api.get(f"{base(box)}/entrypoint") == {"sessionId": "entrypoint", "commands": []}
    assert api.get(f"{base(box)}/entrypoint/logs",
                   headers={"X-Daytona-SDK-Version": "0.218.0"}) == {
        "output": "", "stdout": "", "stderr": ""}
    assert api.request("GET", f"{base(box)}/entrypoint/logs", raw=True) == (200, b"")
    refused(api, 400, "DELETE", f"{base(box)}/entrypoint", says="sessionId")


@pytest.mark.parametrize("body,says", [
    ({"command": ""}, "command: must not be empty"), ({}, "command: is required"),
    ({"command": 5}, "command: must be a string"), ({"command": " \n\t"}, "command: "),
    ({"command": "x", "runAsync": "yes"}, "runAsync: "), ({"command": "x", "timeout": -1}, "timeout: "),
    ({"command": "x", "timeout": "5"}, "timeout: "), ({"command": "a" * 600000}, "command: "),
])
def test_a30_bad_input_is_400_json(api, s, body, says):
    refused(api, 400, "POST", f"{s.url}/exec", body, says=says)


def test_a1_heredoc_returns_at_once(s):
    began = time.monotonic()
    assert s.run("cat << 'EOF' > /tmp/t\nhi\nEOF")["exitCode"] == 0
    assert time.monotonic() - began < 2
    assert s.out("cat /tmp/t") == "hi\n"


@pytest.mark.parametrize("text", [
    "echo 'never closed", 'echo "never closed', "if true; then", "$(echo", "cat << EOF\nnever", "(",
    "}", "case x in",
])
def test_unbalanced_text_leaves_the_session_alive(s, text):
    s.run(text)
    assert s.out("echo alive") == "alive\n"


def test_a3_rc_files_do_not_eat_commands(api, box, s):
    for name in (".bashrc", ".profile", ".bash_profile", ".shrc"):
        api.exec(box, f"echo 'read x; exit 9' > $HOME/{name}")
    other = Session(api, box)
    assert other.out("echo ran") == "ran\n"
    other.delete()
    api.exec(box, "rm -f $HOME/.bashrc $HOME/.profile $HOME/.bash_profile $HOME/.shrc")


@pytest.mark.parametrize("text,code", [
    ("exit 3", 3), ("set -e; false", 1), ("exec sh -c 'exit 4'", 4), ("kill -9 $$", 137),
])
def test_a3_call_that_ends_the_shell_returns_its_code(api, box, text, code):
    s = Session(api, box)
    first = s.run("echo kept")["cmdId"]
    got = s.run(text)
    assert got["exitCode"] == code
    refused(api, 410, "POST", f"{s.url}/exec", {"command": "echo x"}, code="SESSION_ENDED")
    refused(api, 410, "POST", f"{s.url}/exec", {"command": "echo x", "runAsync": True},
            code="SESSION_ENDED")
    assert s.logs(first)["stdout"] == "kept\n"
    assert s.command(got["cmdId"])["exitCode"] == code
    assert s.delete()[0] == 204
    refused(api, 404, "GET", s.url)


def test_queued_commands_of_a_session_that_ends_are_410(api, box):
    s = Session(api, box)
    slow = s.start("read x; exit 7")
    replies = []
    waiting = threading.Thread(target=lambda: replies.append(
        api.request("POST", f"{s.url}/exec", {"command": "echo never"})))
    waiting.start()
    wait_for(lambda: len(api.get(s.url)["commands"]) == 2)
    assert s.input(slow, "go")[0] == 204
    waiting.join(20)
    assert replies[0][0] == 410 and replies[0][1]["code"] == "SESSION_ENDED", replies
    assert s.command(slow)["exitCode"] == 7
    s.delete()


def test_twenty_parallel_calls_queue_in_order(api, box, s):
    s.run("n=0")
    got = []

    def call(i):
        got.append((s.out(f"n=$((n+1)); echo $n; echo {i} >> /tmp/order"), i))
    threads = [threading.Thread(target=call, args=(i,)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(int(n) for n, _ in got) == list(range(1, 21))
    # What each saw is the place it had in the queue.
    order = [i for _, i in sorted(got, key=lambda x: int(x[0]))]
    assert api.exec(box, "cat /tmp/order; rm /tmp/order")["result"].split() == [
        str(i) for i in order]


def test_a5_a11_timeout_kills_the_command_and_not_the_session(api, box, s):
    s.run("sleep 7110 & x=1")
    began = time.monotonic()
    refused(api, 408, "POST", f"{s.url}/exec",
            {"command": "sleep 7111 & setsid sleep 7112; sleep 7113", "timeout": 1},
            code="PROCESS_EXECUTION_TIMEOUT", says="timeout")
    assert 0.9 < time.monotonic() - began < 4
    assert s.out("echo ok $x") == "ok 1\n"
    left = ps(api, box)
    assert "sleep 7113" not in left and "sleep 7110" in left, left


def test_timeout_that_the_shell_itself_eats_ends_the_session(api, box):
    s = Session(api, box)
    status, reply = api.request("POST", f"{s.url}/exec", {"command": "while :; do :; done",
                                                         "timeout": 1})
    assert status in (408, 410), reply
    refused(api, 410, "POST", f"{s.url}/exec", {"command": "echo x"}, code="SESSION_ENDED")
    s.delete()


def test_a11_stuck_session_blocks_no_other(api, box, s):
    s.start("sleep 1000")
    other = Session(api, box)
    began = time.monotonic()
    assert other.out("echo free") == "free\n"
    assert time.monotonic() - began < 2
    other.delete()


def test_sync_command_sees_end_of_file(s):
    assert s.out("cat; echo end") == "end\n"


def test_input_reaches_an_async_command_with_a_line_feed(s):
    cmd = s.start("read a; read b; echo \"[$a][$b]\"")
    assert s.input(cmd, "one") == (204, None)
    assert s.input(cmd, "two\n") == (204, None)
    assert s.wait(cmd) == 0
    assert s.logs(cmd)["stdout"] == "one\ntwo\n[one][two]\n"
    refused(s.api, 410, "POST", f"{s.url}/command/{cmd}/input", {"data": "late"},
            code="COMMAND_ALREADY_COMPLETED")


def test_echo_of_input_can_be_left_out(s):
    cmd = s.start("read a; echo \"[$a]\"", suppressInputEcho=True)
    s.input(cmd, "secret")
    assert s.wait(cmd) == 0
    assert s.logs(cmd)["stdout"] == "[secret]\n"


def test_old_name_of_run_async(api, s):
    assert api.request("POST", f"{s.url}/exec", {"command": "true", "async": True})[0] == 202


def test_hang_up_leaves_the_command_running(api, box, s):
    with raw_request(api, "POST", f"{s.url}/exec",
                     b'{"command": "sleep 1; echo done > /tmp/hung"}'):
        wait_for(lambda: api.get(s.url)["commands"])
    cmd = api.get(s.url)["commands"][0]["id"]
    assert s.wait(cmd) == 0
    assert api.exec(box, "cat /tmp/hung")["result"] == "done\n"


def test_a50_native_route_stops_a_command_twice(api, box, s):
    cmd = s.start("sleep 7120 & setsid sleep 7121 & sleep 7122")
    url = f"/caisson/sandboxes/{box}/sessions/{s.name}/commands/{cmd}/stop"
    wait_for(lambda: "sleep 7122" in ps(api, box))
    got = api.post(url)
    assert got["state"] == "ended" and got["exitCode"] == 137, got
    assert "sleep 712" not in ps(api, box)
    assert s.command(cmd)["exitCode"] == 137
    status, again = api.request("POST", url, {})
    assert status in (200, 410), again
    assert s.out("echo goes on") == "goes on\n"


def test_delete_kills_what_runs(api, box):
    s = Session(api, box)
    s.start("trap '' TERM; sleep 7130 & wait; sleep 7131")
    s.run("true", runAsync=True)
    wait_for(lambda: "sleep 7130" in ps(api, box))
    began = time.monotonic()
    assert s.delete()[0] == 204
    assert time.monotonic() - began < 5
    wait_for(lambda: "sleep 713" not in ps(api, box), 5)


def test_a10_a33_codes_are_right_every_time(s):
    for i in range(200):
        assert s.run(f"(exit {i % 7})")["exitCode"] == i % 7


def test_a31_no_zombies(api, box, s):
    for _ in range(100):
        s.run("sh -c 'sleep 0.01 &'; (sleep 0.01 &)")
    wait_for(lambda: " Z" not in ps(api, box))


def test_a43_session_of_busybox_alone_works(s):
    assert "ash" in s.out("readlink /proc/$$/exe; echo ash") and s.out("echo $0 >/dev/null; echo 1")


def test_key_without_write_permission_may_only_look(api, box, s):
    key = api.post("/api-keys", {"name": "reader", "permissions": []})["value"]
    head = {"Authorization": f"Bearer {key}"}
    assert api.request("GET", s.url, headers=head)[0] == 200
    for method, path, body in (("POST", base(box), {"sessionId": "x"}),
                               ("POST", f"{s.url}/exec", {"command": "id"}),
                               ("DELETE", s.url, None)):
        assert api.request(method, path, body, headers=head)[0] == 403
    api.delete("/api-keys/reader")
