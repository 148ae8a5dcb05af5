"""Git routes over smart HTTP: credentials, kinds of failure, redirects, TLS. The server is
tests/lib/gitserver.py, in a network of the test's own."""
import glob
import json
import os
import socket
import threading
import urllib.parse

import pytest

import cli_daemon
import gitserver
import leftovers
from gitserver import OTHER, TOKEN, USER
from resthelp import refused, wait_for
from test_git_local import ME, Git

LOGIN = {"username": USER, "password": TOKEN}


@pytest.fixture(scope="module")
def net(api):
    return api.net


@pytest.fixture(scope="module")
def api():
    """As conftest's, with a network to reach."""
    daemon = cli_daemon.Daemon(image=cli_daemon.DEFAULT, start=False)
    daemon.net = None
    try:
        daemon.net = gitserver.GitNet(daemon.uplink)
        daemon.start()
        yield daemon
        where = (daemon.data_dir, daemon.run_dir, daemon.instance, daemon.uplink)
        daemon.stop()
        leftovers.assert_gone(*where)
    finally:
        if daemon.net:
            daemon.net.close()
        daemon.close()


@pytest.fixture(scope="module")
def box(api):
    return api.create(autoStopInterval=0)["id"]


count = iter(range(1000))


@pytest.fixture
def git(api, box):
    return Git(api, box, f"/home/daytona/c{next(count)}")


def absent(git):
    return git.api.exec(git.box, f"test -e {git.path}")["exitCode"] == 1


def test_clone_status_and_pull(git, net):
    net.make("open/a.git", {"README": "one\n", "src/x.py": "x\n"}, ["dev"])
    git.post("clone", url=net.url("open/a.git"))
    got = git.get("status")
    assert (got["currentBranch"], got["upstream"], got["branchPublished"]) == (
        "main", "origin/main", True)
    assert git.sh("cat README src/x.py") == "one\nx\n"
    net.commit("open/a.git", "README", "two\n")
    git.sh("git fetch -q")
    assert git.get("status")["behind"] == 1
    git.post("pull")
    assert git.sh("cat README") == "two\n" and git.get("status")["behind"] == 0
    git.post("checkout", branch="dev")
    assert git.get("status")["upstream"] == "origin/dev"


def test_clone_of_branch_depth_and_commit(git, net):
    net.make("open/b.git", {f"f{i}": str(i) for i in range(5)}, ["dev"])
    hashes = net.git("--git-dir", f"{net.root}/open/b.git", "log", "--format=%H").split()
    git.post("clone", url=net.url("open/b.git"), branch="dev", depth=1)
    assert git.get("branches")["current"] == "dev" and len(git.get("history")) == 1
    for depth in (0, 1):
        at = Git(git.api, git.box, f"{git.path}-{depth}")
        at.post("clone", url=net.url("open/b.git"), commit_id=hashes[3], depth=depth)
        assert at.get("history")[0]["hash"] == hashes[3] and at.get("status")["detached"]
        assert at.sh("ls") == "f0\nf1\n"
    short = Git(git.api, git.box, f"{git.path}-short")
    short.post("clone", url=net.url("open/b.git"), commit_id=hashes[2][:9])
    assert short.sh("ls") == "f0\nf1\nf2\n"


def test_failed_clones_say_why_and_leave_nothing(git, net):
    net.make("open/c.git")
    for status, code, url, more in (
            (404, "GIT_REPO_NOT_FOUND", net.url("open/none.git"), {}),
            (404, "GIT_BRANCH_NOT_FOUND", net.url("open/c.git"), {"branch": "none"}),
            (404, "GIT_BRANCH_NOT_FOUND", net.url("open/c.git"), {"commit_id": "1" * 40}),
            (404, "GIT_BRANCH_NOT_FOUND", net.url("open/c.git"), {"commit_id": "abcd12"}),
            (401, "GIT_AUTH_FAILED", net.url("auth/c.git"), {}),
            (403, "FORBIDDEN", net.url("deny/c.git"), {}),
            (502, "GIT_TRANSPORT_FAILED", "http://93.184.216.34:81/x", {}),
            (502, "GIT_TRANSPORT_FAILED", net.url("open/c.git", "https"), {})):
        git.refused(status, "clone", code=code, url=url, **more)
        assert absent(git), url
    git.api.exec(git.box, f"mkdir {git.path}; touch {git.path}/mine")
    git.refused(409, "clone", says="not an empty directory", url=net.url("open/c.git"))
    assert git.sh("ls -A") == "mine\n"
    git.refused(400, "clone", says="commit_id: ", url=net.url("open/c.git"), commit_id="x")
    git.refused(400, "clone", says="depth: ", url=net.url("open/c.git"), depth=-1)


def test_a_killed_clone_leaves_nothing(git, net):
    """The client hangs up while the server is silent; an empty folder that was there stays."""
    for made in (False, True):
        if made:
            git.api.exec(git.box, f"mkdir {git.path}")
        body = json.dumps({"path": git.path, "url": net.url("slow/x.git")}).encode()
        asked = len(net.requests())
        sock = socket.create_connection(("127.0.0.1", git.api.port))
        sock.sendall((f"POST {git.base}/clone HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
                      f"{git.api.key}\r\nContent-Type: application/json\r\nContent-Length: "
                      f"{len(body)}\r\n\r\n").encode() + body)
        wait_for(lambda n=asked: len(net.requests()) > n)
        sock.close()
        wait_for(lambda: not git.api.exec(git.box, "pgrep -x git")["result"])
        if made:
            wait_for(lambda: git.api.exec(git.box, f"ls -A {git.path}") ==
                     {"exitCode": 0, "result": ""})
        else:
            wait_for(lambda: absent(git))


# ---- credentials ----

def everywhere(git):
    """Every text in the sandbox and of the daemon that could hold a secret."""
    out = git.api.exec(git.box, "sudo sh -c 'cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ'; "
                                f"cat ~/.gitconfig ~/.git-credentials; grep -r . {git.path}/.git "
                                "--include=config --include=FETCH_HEAD --include=HEAD "
                                f"--include='*.log'; cat {git.path}/.git/logs/HEAD")["result"]
    for name in glob.glob(f"{git.api.data_dir}/api/*") + [git.api.log]:
        with open(name, "rb") as f:
            out += f.read().decode("latin1")
    return out


def secret_forms():
    return [TOKEN, urllib.parse.quote(TOKEN, safe=""), "cC93Iz8lOg"]


def test_e21_user_and_token_of_any_characters(git, net):
    net.make("auth/e.git")
    git.post("clone", url=net.url("auth/e.git"), **LOGIN)
    assert git.get("remotes")["remotes"][0]["url"] == net.url("auth/e.git")
    git.commit("new", "1")
    git.refused(401, "push", code="GIT_AUTH_FAILED")
    git.refused(401, "push", code="GIT_AUTH_FAILED", username=USER, password="wrong")
    git.post("push", **LOGIN)
    assert git.get("status")["ahead"] == 0
    net.commit("auth/e.git", "more", "2")
    git.refused(401, "pull", code="GIT_AUTH_FAILED")
    git.post("pull", **LOGIN)
    assert git.sh("cat more") == "2"
    assert not [s for s in secret_forms() if s in everywhere(git)]


def test_e21_credentials_in_the_url_are_split_off(git, net):
    net.make("auth/u.git")
    user, token = urllib.parse.quote(USER, safe=""), urllib.parse.quote(TOKEN, safe="")
    git.post("clone", url=f"http://{user}:{token}@{gitserver.WEB}/auth/u.git")
    assert git.get("remotes")["remotes"][0]["url"] == net.url("auth/u.git")
    assert not [s for s in secret_forms() if s in everywhere(git)]
    git.refused(400, "clone", says="percent-escape", url="http://u:%zz@h/x", path="/tmp/n")


def test_credentials_show_nowhere_while_git_runs(git, net, api, box):
    """Looked for in every command line, by root, while a push waits for its server."""
    net.make("open/slow-to-be.git")
    git.post("clone", url=net.url("open/slow-to-be.git"))
    git.commit("x", "1")
    git.sh(f"git remote set-url origin {net.url('slow/x.git')}")
    asked = len(net.requests())
    body = {"path": git.path, "username": "looked-for-user", "password": "looked-for-token"}
    t = threading.Thread(target=lambda: api.request("POST", f"{git.base}/push", body))
    t.start()
    wait_for(lambda: len(net.requests()) > asked)
    lines = api.exec(box, "sudo sh -c 'cat /proc/[0-9]*/cmdline' | tr '\\0' ' '")["result"]
    seen = api.exec(box, "sudo -u nobody sh -c 'cat /proc/[0-9]*/environ' 2>/dev/null")["result"]
    api.exec(box, "pkill -x git-remote-http; pkill -x git")
    t.join(30)
    assert "git" in lines and "looked-for" not in lines
    assert "looked-for" not in seen and not t.is_alive()


def test_a_redirect_gets_no_credentials(git, net):
    net.make("auth/r.git")
    before = len(net.requests())
    git.refused(401, "clone", code="GIT_AUTH_FAILED", url=net.url("away/r.git"), **LOGIN)
    asked = net.requests()[before:]
    assert [r for r in asked if r[0] == OTHER], asked
    assert not [r for r in asked if r[0] == OTHER and r[2]], asked


def test_hooks_and_stored_helpers_learn_nothing(git, net):
    net.make("auth/h.git")
    git.post("clone", url=net.url("auth/h.git"), **LOGIN)
    git.sh("git config credential.helper \"!f() { cat >> $HOME/helper; }; f\";"
           "for h in pre-push post-merge reference-transaction; do printf "
           "'#!/bin/sh\\nenv >> ~/hook\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done")
    git.commit("x", "1")
    git.post("push", **LOGIN)
    net.commit("auth/h.git", "y", "2")
    git.post("pull", **LOGIN)
    git.api.exec(git.box, "sync")
    seen = git.api.exec(git.box, "cat ~/hook ~/helper 2>/dev/null; rm -f ~/hook ~/helper")["result"]
    assert "GIT_" in seen and "CAISSON_GIT" not in seen
    assert not [s for s in secret_forms() if s in seen]


def test_stored_credentials_are_used(git, net, api):
    net.make("auth/s.git")
    api.post(f"{git.base}/credentials", {**LOGIN, "host": gitserver.WEB, "protocol": "http"})
    try:
        git.post("clone", url=net.url("auth/s.git"))
        git.commit("x", "1")
        git.post("push")
    finally:
        api.exec(git.box, "rm -f ~/.git-credentials; git config --global --unset credential.helper")


# ---- push and pull ----

def test_push_rejected_then_pull_and_push(git, net):
    net.make("open/p.git")
    git.post("clone", url=net.url("open/p.git"))
    net.commit("open/p.git", "theirs", "1")
    git.commit("ours", "2")
    git.refused(409, "push", code="GIT_PUSH_REJECTED")
    git.refused(400, "pull", says="who you are")
    git.post("config/user", name="Ann", email="a@b", scope="local")
    git.post("pull")
    git.post("push")
    assert git.sh("cat theirs ours") == "12"


def test_push_of_a_new_branch_sets_its_upstream(git, net):
    net.make("open/n.git")
    git.post("clone", url=net.url("open/n.git"))
    git.post("branches", name="topic")
    git.commit("t", "1")
    assert git.get("status")["branchPublished"] is False
    git.post("push", set_upstream=True)
    got = git.get("status")
    assert (got["upstream"], got["branchPublished"], got["ahead"]) == ("origin/topic", True, 0)
    git.post("push", branch="topic", remote="origin")
    git.refused(404, "push", code="GIT_BRANCH_NOT_FOUND", branch="none")
    git.refused(404, "push", remote="none", **LOGIN)
    git.refused(404, "pull", code="GIT_BRANCH_NOT_FOUND", branch="none")
    git.post("checkout", branch="main")
    git.post("pull", remote="origin", branch="topic")
    assert git.sh("cat t") == "1"


def test_remote_that_refuses(git, net):
    bare = net.make("open/refuse.git")
    with open(f"{bare}/hooks/pre-receive", "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho no >&2\nexit 1\n")
    os.chmod(f"{bare}/hooks/pre-receive", 0o755)
    git.post("clone", url=net.url("open/refuse.git"))
    git.commit("x", "1")
    git.refused(422, "push", code="GIT_REMOTE_REJECTED")


def test_pull_into_a_dirty_tree_and_into_a_conflict(git, net):
    net.make("open/d.git", {"a": "1"})
    git.post("clone", url=net.url("open/d.git"))
    git.post("config/user", name="Ann", email="a@b", scope="local")
    net.commit("open/d.git", "a", "theirs")
    git.sh("echo dirty > a")
    git.refused(409, "pull", code="GIT_DIRTY_WORKTREE")
    git.post("restore", files=["a"])
    git.commit("a", "ours")
    git.refused(409, "pull", code="GIT_MERGE_CONFLICT")
    assert git.files()["a"] == ("Updated but unmerged",) * 2
    git.refused(409, "pull", code="GIT_MERGE_CONFLICT")
    git.post("reset", mode="hard")
    assert git.sh("cat a") == "ours"


def test_remotes_are_fetched_and_undone(git, net):
    net.make("open/f.git")
    git.post("init")
    git.post("remotes", name="origin", url=net.url("open/f.git"), fetch=True)
    assert "origin/main" in git.sh("git branch -r")
    git.refused(404, "remotes", code="GIT_REPO_NOT_FOUND", name="bad",
                url=net.url("open/none.git"), fetch=True)
    assert [r["name"] for r in git.get("remotes")["remotes"]] == ["origin"]


def test_tls_is_verified_unless_told_otherwise(git, net):
    net.make("auth/t.git")
    url = net.url("auth/t.git", "https")
    git.refused(502, "clone", code="GIT_TRANSPORT_FAILED", url=url, **LOGIN)
    git.post("clone", url=url, insecure_skip_tls=True, **LOGIN)
    git.commit("x", "1")
    # It was for that call only.
    git.refused(502, "push", code="GIT_TRANSPORT_FAILED", **LOGIN)


def test_no_git_is_left_running(api, box):
    assert not api.exec(box, "pgrep -l git")["result"]
