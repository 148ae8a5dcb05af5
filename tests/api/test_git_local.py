"""Git routes without a network: contract 3.11, on the default image's git."""
import json
import urllib.parse

import pytest

import cli_daemon
from resthelp import refused

IMAGE = cli_daemon.DEFAULT
ME = {"author": "Ann", "email": "ann@x.y"}


class Git:
    """The git routes of one sandbox, at one path."""

    def __init__(self, api, box, path):
        self.api, self.base, self.path, self.box = api, f"/toolbox/{box}/git", path, box

    def post(self, route, **fields):
        return self.api.post(f"{self.base}/{route}", {"path": self.path, **fields})

    def get(self, route, **query):
        return self.api.get(f"{self.base}/{route}?" + urllib.parse.urlencode(
            {"path": self.path, **query}))

    def refused(self, status, route, code=None, says=(), method="POST", **fields):
        return refused(self.api, status, method, f"{self.base}/{route}",
                       {"path": self.path, **fields}, code=code, says=says)

    def sh(self, text):
        got = self.api.exec(self.box, f"cd {self.path} && {text}")
        assert got["exitCode"] == 0, got
        return got["result"]

    def files(self):
        return {f["name"]: (f["staging"], f["worktree"]) for f in self.get("status")["fileStatus"]}

    def commit(self, name, text, message="m"):
        self.sh(f"printf '%s' '{text}' > '{name}'")
        self.post("add", files=[name])
        return self.post("commit", message=message, **ME)["hash"]


count = iter(range(1000))


@pytest.fixture
def git(api, box):
    g = Git(api, box, f"/home/daytona/r{next(count)}")
    g.post("init", initial_branch="main")
    return g


def test_init_makes_the_folder_and_the_named_branch(git, api, box):
    got = git.get("branches")
    assert got == {"branches": [], "current": "main"}
    assert git.get("status") == {"currentBranch": "main", "detached": False, "upstream": "",
                                 "branchPublished": False, "ahead": 0, "behind": 0,
                                 "fileStatus": []}
    assert git.get("history") == []
    git.refused(409, "init", says="already")
    status, reply = api.request("POST", f"{git.base}/init", {"path": "deep/er/bare", "bare": True})
    assert status == 201 and not reply
    assert "HEAD" in api.exec(box, "ls ~/deep/er/bare")["result"]


def test_status_names_every_kind_of_change(git):
    names = ["same", "edit", "gone", "old name", "staged-gone"]
    for name in names:
        git.sh(f"seq 50 > '{name}'; echo '{name}' >> '{name}'")
    git.post("add", files=["."])
    git.post("commit", message="start", **ME)
    git.sh("echo x >> edit; rm gone; git mv 'old name' 'new näme'; git rm -q staged-gone;"
           "echo n > new; mkdir d; echo u > 'd/un tracked'; git add new; echo y >> new")
    assert git.files() == {
        "edit": ("Unmodified", "Modified"), "gone": ("Unmodified", "Deleted"),
        "new näme": ("Renamed", "Unmodified"), "staged-gone": ("Deleted", "Unmodified"),
        "new": ("Added", "Modified"), "d/un tracked": ("Untracked", "Untracked")}
    extra = [f["extra"] for f in git.get("status")["fileStatus"] if f["name"] == "new näme"]
    assert extra == ["old name"]


def test_names_that_look_like_options_or_patterns_are_files(git):
    git.sh("touch -- -f '*' plain ':(top)x' '--all'")
    git.post("add", files=["-f", "*", ":(top)x"])
    assert git.files() == {"-f": ("Added", "Unmodified"), "*": ("Added", "Unmodified"),
                           ":(top)x": ("Added", "Unmodified"), "plain": ("Untracked",) * 2,
                           "--all": ("Untracked",) * 2}
    for route, fields in (("checkout", {"branch": "--orphan=x"}), ("branches", {"name": "-D"}),
                          ("reset", {"target": "--hard"}), ("reset", {"mode": "hard --x"}),
                          ("restore", {"files": ["plain"], "source": "-x"}),
                          ("push", {"remote": "--mirror"}), ("pull", {"branch": "-f"}),
                          ("remotes", {"name": "-x", "url": "/x"}),
                          ("clone", {"url": "--upload-pack=touch /tmp/owned"}),
                          ("clone", {"url": "ext::sh -c 'touch /tmp/owned'", "path": "/tmp/ext"}),
                          ("config", {"key": "--unset", "value": "x"}),
                          ("config", {"key": "a.b", "value": "x", "scope": "file=/tmp/owned"})):
        status, reply = git.api.request("POST", f"{git.base}/{route}", {"path": git.path, **fields})
        assert status in (400, 422), (route, fields, reply)
    assert git.api.exec(git.box, "ls /tmp/owned")["exitCode"] != 0


def test_commit_and_history(git):
    first = git.commit("a", "1", "one\n\nbody with 'quotes' \"$(id)\"\n# not a comment")
    second = git.commit("b", "2", "-m zwei ☕")
    got = git.get("history")
    assert [c["hash"] for c in got] == [second, first] and len(first) == 40
    assert got[1]["message"] == "one\n\nbody with 'quotes' \"$(id)\"\n# not a comment"
    assert got[0]["message"] == "-m zwei ☕"
    assert (got[0]["author"], got[0]["email"]) == ("Ann", "ann@x.y")
    assert got[0]["timestamp"][10] == "T"
    assert len(git.get("history", limit=1)) == 1
    assert git.get("history", skip=1)[0]["hash"] == first
    git.refused(409, "commit", says="nothing to commit", message="x", **ME)
    assert git.post("commit", message="empty", allow_empty=True, **ME)["hash"] != second
    git.refused(400, "commit", message="  \n", allow_empty=True, **ME)
    git.refused(400, "commit", says="author: ", message="x", author="a\nb", email="x")


def test_large_message_and_many_files(git):
    git.sh("mkdir many; for i in $(seq 300); do echo $i > many/$i; done")
    git.post("add", files=[f"many/{i}" for i in range(1, 301)])
    git.post("commit", message="x" * 500_000, **ME)
    assert len(git.get("history")[0]["message"]) == 500_000
    assert git.files() == {}


def test_branches(git):
    git.commit("a", "1")
    git.post("branches", name="feature/x")
    assert git.get("branches") == {"branches": ["feature/x", "main"], "current": "feature/x"}
    git.refused(409, "branches", code="GIT_BRANCH_EXISTS", name="main")
    git.refused(409, "branches", code="GIT_BRANCH_EXISTS", name="feature/x/y")
    git.refused(409, "branches", method="DELETE", name="feature/x")
    git.commit("b", "2")
    git.post("checkout", branch="main")
    git.api.delete(f"{git.base}/branches", body={"path": git.path, "name": "feature/x"})
    assert git.get("branches")["branches"] == ["main"]
    git.refused(404, "branches", code="GIT_BRANCH_NOT_FOUND", method="DELETE", name="feature/x")
    git.refused(404, "checkout", code="GIT_BRANCH_NOT_FOUND", branch="nope")
    git.refused(400, "branches", says="name: ", name="a..b")


def test_checkout_of_a_commit_detaches(git):
    first = git.commit("a", "1")
    git.commit("a", "2")
    git.post("checkout", branch=first)
    got = git.get("status")
    assert got["detached"] is True and got["currentBranch"] == "HEAD"
    assert git.get("branches")["current"] == ""
    git.refused(404, "push", code="GIT_BRANCH_NOT_FOUND")
    # A file of that name is not what is meant.
    git.refused(404, "checkout", code="GIT_BRANCH_NOT_FOUND", branch="a")


def test_dirty_tree_is_said(git):
    git.commit("a", "1")
    git.post("branches", name="x")
    git.commit("a", "2")
    git.sh("echo dirty > a")
    git.refused(409, "checkout", code="GIT_DIRTY_WORKTREE", branch="main")


def test_reset_and_restore(git):
    first = git.commit("a", "1")
    git.commit("a", "2")
    git.sh("echo 3 > a; echo n > new")
    git.post("add", files=["a", "new"])
    git.post("reset", files=["new"])
    assert git.files() == {"a": ("Modified", "Unmodified"), "new": ("Untracked",) * 2}
    git.post("restore", files=["a"], staged=True)
    assert git.files()["a"] == ("Unmodified", "Modified")
    git.post("restore", files=["."])
    assert "a" not in git.files() and git.sh("cat a") == "2"
    git.post("restore", files=["a"], source=first)
    assert git.sh("cat a") == "1"
    git.post("reset", mode="hard")
    assert git.sh("cat a") == "2"
    git.post("reset", mode="soft", target=first)
    assert git.files()["a"] == ("Modified", "Unmodified")
    git.post("reset", mode="hard", target=first)
    assert git.sh("cat a") == "1"
    git.refused(400, "reset", says="mode: ", mode="wild")
    git.refused(400, "reset", says="mode: ", mode="hard", files=["a"])
    git.refused(404, "reset", code="GIT_BRANCH_NOT_FOUND", target="nope")
    git.refused(404, "restore", code="FILE_NOT_FOUND", files=["nope"])
    git.refused(400, "restore", says="files: ", files=[])


def test_config_by_scope(git, api):
    git.post("config", key="x.global", value="-1 \"q\"\nzwei")
    assert git.get("config", key="x.global")["value"] == "-1 \"q\"\nzwei"
    assert api.get(f"{git.base}/config?key=x.global")["value"] == "-1 \"q\"\nzwei"
    git.post("config", key="x.local", value="", scope="local")
    assert git.get("config", key="x.local")["value"] == ""
    assert git.get("config", key="x.local", scope="global")["value"] is None
    assert api.get(f"{git.base}/config?key=x.local")["value"] is None
    # Nothing of how the daemon runs git shows.
    assert git.get("config", key="gc.auto")["value"] is None
    git.refused(403, "config", key="x.y", value="1", scope="system")
    refused(api, 400, "POST", f"{git.base}/config", {"key": "a.b", "value": "", "scope": "local"},
            says="path: ")
    git.refused(400, "config", says="scope: ", key="a.b", value="1", scope="worktree")
    api.post(f"{git.base}/config/user", {"name": "Bob", "email": "bob@x"})
    assert api.get(f"{git.base}/config?key=user.email&scope=global")["value"] == "bob@x"
    git.post("config/user", name="Ann", email="ann@x", scope="local")
    assert git.get("config", key="user.name")["value"] == "Ann"


def test_remotes(git):
    assert git.get("remotes") == {"remotes": []}
    git.post("remotes", name="origin", url="https://h.test/a.git")
    git.post("remotes", name="up", url="git@h.test:b.git")
    assert git.get("remotes")["remotes"] == [{"name": "origin", "url": "https://h.test/a.git"},
                                             {"name": "up", "url": "git@h.test:b.git"}]
    git.refused(409, "remotes", name="up", url="x")
    git.post("remotes", name="up", url="/srv/c", overwrite=True)
    assert git.get("remotes")["remotes"][1]["url"] == "/srv/c"
    git.refused(400, "remotes", says="url: ", name="p", url="https://u:secret@h.test/x")
    assert "secret" not in git.sh("cat .git/config")


def test_stored_credentials_are_where_git_finds_them(git, api, box):
    api.post(f"{git.base}/credentials", {"username": "a@b.c", "password": "p/w#?%:"})
    api.post(f"{git.base}/credentials", {"username": "u", "password": "two", "host": "h.test:8",
                                         "protocol": "http"})
    ask = "printf 'protocol=http\\nhost=h.test:8\\n\\n' | git credential fill"
    assert "password=two" in api.exec(box, ask)["result"]
    ask = "printf 'protocol=https\\nhost=github.com\\n\\n' | git credential fill"
    assert "username=a@b.c\npassword=p/w#?%:" in api.exec(box, ask)["result"]
    assert api.exec(box, "git config --get-all credential.helper")["result"] == "store\n"
    for fields in ({"host": "a/b"}, {"host": "u@h"}, {"protocol": "ssh"}, {"username": "a\nb"},
                   {"password": ""}):
        refused(api, 400, "POST", f"{git.base}/credentials",
                {"username": "u", "password": "p", **fields}, says=next(iter(fields)))


def test_places_that_are_no_repository(git, api, box):
    for path, status in (("/nope", 404), ("/tmp", 404), ("/etc/passwd", 404), ("/root", 403)):
        code = "GIT_REPO_NOT_FOUND" if status == 404 else "FILE_ACCESS_DENIED"
        for route in ("status", "branches", "history", "remotes"):
            refused(api, status, "GET", f"{git.base}/{route}?path={path}", code=code)
        refused(api, status, "POST", f"{git.base}/add", {"path": path, "files": ["."]}, code=code)
    refused(api, 403, "POST", f"{git.base}/init", {"path": "/usr/x"}, code="FILE_ACCESS_DENIED")
    refused(api, 400, "GET", f"{git.base}/status")
    api.exec(box, "sudo git init -q /srv/other")
    refused(api, 403, "GET", f"{git.base}/status?path=/srv/other", says="dubious ownership")


def test_relative_paths_start_at_the_working_directory(api, box):
    g = Git(api, box, "rel/repo")
    g.post("init")
    assert api.exec(box, "test -d ~/rel/repo/.git")["exitCode"] == 0
    g.sh("echo x > f")
    g.post("add", files=["f"])
    assert g.files() == {"f": ("Added", "Unmodified")}


def test_hooks_run_and_their_refusal_is_said(git):
    git.sh("printf '#!/bin/sh\\necho no way >&2; exit 1\\n' > .git/hooks/pre-commit;"
           "chmod +x .git/hooks/pre-commit; echo x > f")
    git.post("add", files=["f"])
    git.refused(422, "commit", says="no way", message="m", **ME)


def test_conflict_is_left_to_be_solved(git):
    git.commit("a", "base")
    git.post("branches", name="x")
    git.commit("a", "left")
    git.post("checkout", branch="main")
    git.commit("a", "right")
    git.sh("git merge x || true")
    assert git.files() == {"a": ("Updated but unmerged",) * 2}
    git.refused(409, "commit", code="GIT_MERGE_CONFLICT", message="m", **ME)
    git.commit("a", "both", "merged")
    assert len(git.get("history")) == 4


def test_an_image_without_git_says_so(make_busybox):
    api, box = make_busybox
    refused(api, 422, "GET", f"/toolbox/{box}/git/status?path=/", says="not installed")


@pytest.fixture
def make_busybox():
    with cli_daemon.Daemon() as daemon:
        yield daemon, daemon.create(autoStopInterval=0)["id"]


def test_audit_names_what_was_done_and_no_bodies(git, api):
    git.refused(400, "push", says="password: ", password="s3cret\nx")
    assert "s3cret" not in json.dumps(git.get("status"))
    with open(api.log, encoding="utf-8", errors="replace") as f:
        assert "s3cret" not in f.read()
