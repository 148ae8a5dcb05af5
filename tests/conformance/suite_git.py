"""Git through the Python SDK, against smart-HTTP servers inside the sandbox."""
import asyncio
import os

import daytona as sdk
from daytona import CreateSandboxFromSnapshotParams, Daytona

from check import check, equal, finish, raises, raises_async, section, wait_for

ORIGIN = "http://127.0.0.1:8901/hello.git"
CLOSED = "http://127.0.0.1:8902/hello.git"
USER, PASSWORD = "a@b.c", "p/w#?%:"
ME = ("Ada Lovelace", "ada@example.com")

SET_UP = r"""
set -e
mkdir -p /tmp/srv; cd /tmp/srv
git init -q --bare -b main hello.git
git -C hello.git config http.receivepack true
git clone -q hello.git /tmp/seed 2> /dev/null; cd /tmp/seed
git config user.name Seed; git config user.email seed@example.com
git checkout -q -B main
echo one > README; git add .; git commit -qm first; echo two >> README; git commit -qam second
git push -q origin main
git checkout -q -b test; echo t > t.txt; git add .; git commit -qm 'on test'; git push -q origin test
cd /tmp
setsid python3 gitserver.py 8901 /tmp/srv < /dev/null > /dev/null 2>&1 &
setsid python3 gitserver.py 8902 /tmp/srv 'a@b.c' 'p/w#?%:' < /dev/null > /dev/null 2>&1 &
"""


def start_servers(sb):
    with open(os.path.join(os.environ["CAISSON_TESTS"], "gitserver.py"), "rb") as f:
        sb.fs.upload_file(f.read(), "/tmp/gitserver.py")
    got = sb.process.exec(SET_UP, timeout=60)
    equal("servers: set up", (got.exit_code, got.result), (0, ""))
    wait_for("servers: listen", lambda: sb.process.exec(
        "git ls-remote http://127.0.0.1:8901/hello.git > /dev/null 2>&1 && "
        "curl -so /dev/null http://127.0.0.1:8902/").exit_code == 0)


def sh(sb, command, cwd=None):
    return sb.process.exec(command, cwd=cwd).result.strip()


def states(sb, path):
    return {f.name: (str(f.staging.value), str(f.worktree.value)) for f in sb.git.status(path).file_status}


def clone(sb):
    git = sb.git
    git.clone(ORIGIN, "work")
    check("clone: a folder", sb.fs.get_file_info("work").is_dir)
    s = git.status("work")
    equal("clone: status", (s.current_branch, s.file_status, s.ahead, s.behind, s.branch_published),
          ("main", [], 0, 0, True))
    equal("clone: branches", (git.branches("work").branches, git.branches("work").current),
          (["main"], "main"))
    git.clone(ORIGIN, "/tmp/branch", branch="test")
    equal("clone: branch", git.status("/tmp/branch").current_branch, "test")
    git.clone(ORIGIN, "shallow", branch="main", depth=1)
    equal("clone: depth", sh(sb, "git rev-list --count HEAD", "shallow"), "1")
    git.pull("shallow", remote="origin", branch="main")
    first = sh(sb, "git rev-list --max-parents=0 HEAD", "work")
    git.clone(ORIGIN, "/tmp/commit", commit_id=first)
    equal("clone: commit", sh(sb, "git rev-parse HEAD", "/tmp/commit"), first)
    check("clone: of a commit is detached", git.status("/tmp/commit").detached)


def clone_errors(sb):
    git = sb.git
    raises("clone: unknown repository", sdk.DaytonaNotFoundError, lambda: git.clone(
        "http://127.0.0.1:8901/none.git", "/tmp/n1"), status=404)
    raises("clone: unknown branch", sdk.DaytonaGitBranchNotFoundError, lambda: git.clone(
        ORIGIN, "/tmp/n2", branch="none"), status=404, code="GIT_BRANCH_NOT_FOUND")
    raises("clone: nobody listens", sdk.DaytonaGitTransportFailedError, lambda: git.clone(
        "http://127.0.0.1:9/x.git", "/tmp/n3"), status=502, code="GIT_TRANSPORT_FAILED")
    raises("clone: target is full", sdk.DaytonaConflictError, lambda: git.clone(ORIGIN, "work"),
           status=409)
    raises("clone: option as URL", sdk.DaytonaBadRequestError, lambda: git.clone(
        "--upload-pack=touch /tmp/hacked", "/tmp/n4"), status=400)
    raises("clone: program as URL", sdk.DaytonaError, lambda: git.clone(
        "ext::sh -c 'touch /tmp/hacked'", "/tmp/n5"))
    equal("clone: nothing ran", sh(sb, "ls /tmp/hacked 2> /dev/null | wc -l"), "0")
    raises("status: no repository", sdk.DaytonaError, lambda: git.status("/tmp"))


def e21_credentials(sb):
    git = sb.git
    raises("auth: none", sdk.DaytonaGitAuthFailedError, lambda: git.clone(CLOSED, "/tmp/c0"),
           status=401, code="GIT_AUTH_FAILED", source="DAYTONA_DAEMON")
    raises("auth: wrong", sdk.DaytonaAuthenticationError, lambda: git.clone(
        CLOSED, "/tmp/c1", username=USER, password="no"), status=401)
    git.clone(CLOSED, "closed", username=USER, password=PASSWORD)
    equal("e21: clone", git.status("closed").current_branch, "main")
    equal("e21: remote is clean", git.remote_get("closed", "origin"), CLOSED)
    equal("e21: no trace", sh(sb, "grep -rlF 'p/w' ~/closed/.git ~/.git-credentials ~/.gitconfig "
                              "2> /dev/null | wc -l"), "0")
    sb.fs.upload_file(b"mine\n", "closed/mine.txt")
    git.add("closed", ["mine.txt"])
    git.commit("closed", "mine", *ME)
    raises("auth: push without", sdk.DaytonaAuthenticationError, lambda: git.push("closed"), status=401)
    git.push("closed", username=USER, password=PASSWORD)
    equal("e21: pushed", git.status("closed").ahead, 0)
    git.pull("closed", username=USER, password=PASSWORD)


def work(sb):
    git = sb.git
    git.pull("work")
    git.create_branch("work", "feature")
    check("branch: made", "feature" in git.branches("work").branches)
    git.checkout_branch("work", "feature")
    equal("branch: on it", git.status("work").current_branch, "feature")
    sb.fs.upload_file(b"new\n", "work/new.txt")
    sb.fs.upload_file(b"changed\n", "work/README")
    equal("status: untracked and modified", states(sb, "work"),
          {"new.txt": ("Untracked", "Untracked"), "README": ("Unmodified", "Modified")})
    git.add("work", ["new.txt"])
    equal("status: added", states(sb, "work")["new.txt"], ("Added", "Unmodified"))
    git.add("work", ["."])
    got = git.commit("work", "subject\n\nbody 'quoted' \"$x\"", *ME)
    check("commit: hash", len(got.sha) == 40, got)
    equal("commit: as given", sh(sb, "git log -1 --format='%H %an <%ae>%n%B'", "work"),
          f"{got.sha} Ada Lovelace <ada@example.com>\nsubject\n\nbody 'quoted' \"$x\"")
    raises("commit: nothing to commit", sdk.DaytonaError, lambda: git.commit("work", "again", *ME))
    check("commit: empty if allowed", git.commit("work", "empty", *ME, allow_empty=True).sha)
    sb.process.exec("git mv new.txt moved.txt; rm README", cwd="work")
    got = {f.name: f for f in git.status("work").file_status}
    equal("status: renamed", (got["moved.txt"].staging.value, got["moved.txt"].extra),
          ("Renamed", "new.txt"))
    equal("status: deleted", got["README"].worktree.value, "Deleted")
    git.reset("work", mode="hard")
    equal("reset: hard", states(sb, "work"), {})
    git.push("work", remote="origin", branch="feature", set_upstream=True)
    s = git.status("work")
    equal("push: upstream", (s.upstream, s.ahead, s.branch_published), ("origin/feature", 0, True))
    git.checkout_branch("work", "main")
    git.delete_branch("work", "feature")
    check("branch: deleted", "feature" not in git.branches("work").branches)
    raises("branch: taken", sdk.DaytonaGitBranchExistsError, lambda: git.create_branch("work", "main"),
           status=409, code="GIT_BRANCH_EXISTS")
    raises("branch: none", sdk.DaytonaNotFoundError, lambda: git.checkout_branch("work", "none"), status=404)
    raises("branch: bad name", sdk.DaytonaError, lambda: git.create_branch("work", "a..b"))


def conflicts(sb):
    git = sb.git
    git.clone(ORIGIN, "/tmp/one")
    git.clone(ORIGIN, "/tmp/two")
    for path, text in (("/tmp/one", b"1\n"), ("/tmp/two", b"2\n")):
        sb.fs.upload_file(text, f"{path}/same")
        git.add(path, ["same"])
        git.commit(path, "same", *ME)
    git.push("/tmp/one")
    raises("push: behind", sdk.DaytonaGitPushRejectedError, lambda: git.push("/tmp/two"), status=409,
           code="GIT_PUSH_REJECTED")
    git.configure_user(*ME, scope="local", path="/tmp/two")
    raises("pull: conflict", sdk.DaytonaConflictError, lambda: git.pull("/tmp/two"), status=409)
    git.clone(ORIGIN, "/tmp/three")
    sb.fs.upload_file(b"dirty\n", "/tmp/three/same")
    git.create_branch("/tmp/three", "other")
    sb.process.exec("git checkout -q other && git -c user.name=x -c user.email=x@y commit -qam o; "
                    "echo more > same", cwd="/tmp/three")
    raises("checkout: dirty", sdk.DaytonaGitDirtyWorktreeError,
           lambda: git.checkout_branch("/tmp/three", "main"), status=409, code="GIT_DIRTY_WORKTREE")


def tour(sb):
    """The way of the published example: a repository of one's own, relative paths."""
    git, repo = sb.git, "demo-repo"
    git.init(repo, initial_branch="main")
    git.configure_user(*ME, scope="local", path=repo)
    equal("tour: user", git.get_config("user.name", scope="local", path=repo), ME[0])
    git.set_config("core.editor", "nano", scope="local", path=repo)
    equal("tour: config", git.get_config("core.editor", scope="local", path=repo), "nano")
    equal("tour: unset key", git.get_config("no.such", scope="local", path=repo), None)
    git.remote_add(repo, "origin", ORIGIN)
    equal("tour: remotes", [(r.name, r.url) for r in git.remotes(repo).remotes], [("origin", ORIGIN)])
    equal("tour: remote", git.remote_get(repo, "origin"), ORIGIN)
    equal("tour: no remote", git.remote_get(repo, "none"), None)
    raises("tour: remote taken", sdk.DaytonaConflictError, lambda: git.remote_add(repo, "origin", "x"))
    git.remote_add(repo, "origin", ORIGIN, overwrite=True, fetch=True)
    sb.fs.upload_file(b"line1\n", f"{repo}/a.txt")
    git.add(repo, ["a.txt"])
    check("tour: commit", git.commit(repo, "first", *ME).sha)
    equal("tour: branches", (git.branches(repo).branches, git.branches(repo).current), (["main"], "main"))
    s = git.status(repo)
    equal("tour: status", (s.current_branch, bool(s.detached), s.file_status), ("main", False, []))
    sb.fs.upload_file(b"staged\n", f"{repo}/b.txt")
    git.add(repo, ["b.txt"])
    equal("tour: staged", states(sb, repo), {"b.txt": ("Added", "Unmodified")})
    git.reset(repo)
    equal("tour: unstaged", states(sb, repo), {"b.txt": ("Untracked", "Untracked")})
    sb.fs.upload_file(b"corrupted\n", f"{repo}/a.txt")
    git.restore(repo, ["a.txt"])
    equal("tour: restored", sb.fs.download_file(f"{repo}/a.txt"), b"line1\n")
    git.add(repo, ["b.txt"])
    git.restore(repo, ["b.txt"], staged=True)
    equal("tour: restore of the index", states(sb, repo), {"b.txt": ("Untracked", "Untracked")})
    sb.fs.upload_file(b"v2\n", f"{repo}/a.txt")
    git.add(repo, ["a.txt"])
    git.commit(repo, "second", *ME)
    git.reset(repo, mode="keep", target="HEAD~1")
    equal("tour: reset keep", sb.fs.download_file(f"{repo}/a.txt"), b"line1\n")
    git.init("/tmp/bare.git", bare=True)
    equal("tour: bare", sh(sb, "git rev-parse --is-bare-repository", "/tmp/bare.git"), "true")
    git.set_config("user.name", "Global")
    equal("tour: global config", git.get_config("user.name"), "Global")
    git.dangerously_authenticate("ci-bot", "fake", host="example.com")
    equal("tour: stored", sh(sb, "cat ~/.git-credentials"), "https://ci-bot:fake@example.com")


async def asynchronous_client():
    async with sdk.AsyncDaytona() as d:
        sb = await d.create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
        git = sb.git
        await git.init("r", initial_branch="main")
        await sb.fs.upload_file(b"x", "r/x")
        await git.add("r", ["."])
        got = await git.commit("r", "first", *ME)
        equal("async: commit", len(got.sha), 40)
        equal("async: status", (await git.status("r")).current_branch, "main")
        await git.create_branch("r", "b")
        await git.checkout_branch("r", "b")
        equal("async: branches", sorted((await git.branches("r")).branches), ["b", "main"])
        await git.clone("/home/daytona/r", "copy")
        equal("async: clone of a path", (await git.status("copy")).current_branch, "b")
        await raises_async("async: exists", sdk.DaytonaGitBranchExistsError,
                           lambda: git.create_branch("r", "main"), status=409)
        got = await asyncio.gather(*(git.status("r") for _ in range(5)))
        equal("async: five at once", len(got), 5)
        await sb.delete()


def main():
    sb = Daytona().create(CreateSandboxFromSnapshotParams(auto_stop_interval=0))
    for fn in (start_servers, clone, clone_errors, e21_credentials, work, conflicts, tour):
        section(fn, sb)
    sb.delete()
    section(asynchronous_client)
    finish(70)


main()
