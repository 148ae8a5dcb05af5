"""Each process of the daemon holds no more than its part needs: ids, capabilities, secrets."""
import os

import pytest

import cli_daemon

KEY = "dtn_" + "c0ffee15" * 8
SECRET = KEY[4:].encode()


def status(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict((k, v.split()) for k, v in (line.split(":", 1) for line in f))


def memory_has(pid, text):
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            span, mode = line.split()[:2]
            low, high = (int(x, 16) for x in span.split("-"))
            if mode[0] != "r" or "[v" in line:
                continue
            try:
                mem.seek(low)
                if text in mem.read(high - low):
                    return line
            except OSError:
                pass
    return None


@pytest.mark.parametrize("how", ["flag", "flag=", "environment", "file"])
def test_the_first_key_stays_where_it_is_needed(how, tmp_path):
    args, env = [], {}
    if how == "flag":
        args = ["--admin-key", KEY]
    elif how == "flag=":
        args = [f"--admin-key={KEY}"]
    elif how == "environment":
        env = {"CAISSON_ADMIN_KEY": KEY}
    else:
        (tmp_path / "conf").write_text(f"# settings\nadmin-key = {KEY}\nlog-level = info\n")
        args = ["--config", str(tmp_path / "conf")]
    with cli_daemon.Daemon(args=args, env=env) as d:
        assert d.key == KEY and d.request("GET", "/sandbox")[0] == 200
        pids = d.pids()
        for role, pid in pids.items():
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                assert SECRET not in f.read(), f"{role}: everybody sees its arguments"
        for role in ("api", "net"):
            with open(f"/proc/{pids[role]}/environ", "rb") as f:
                assert SECRET not in f.read(), role
        assert not memory_has(pids["net"], SECRET), memory_has(pids["net"], SECRET)


def test_roles_have_given_up_root(api):
    pids = api.pids()
    ids = set()
    for role in ("api", "net"):
        st = status(pids[role])
        assert len(set(st["Uid"])) == 1 and st["Uid"][0] != "0", (role, st["Uid"])
        assert len(set(st["Gid"])) == 1 and st["Gid"][0] != "0" and not st["Groups"], role
        assert all(int(st[c][0], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")), role
        assert st["NoNewPrivs"] == ["1"] and st["Seccomp"] == ["2"], role
        # Not dumpable: another process of the same user can't look into it.
        assert os.stat(f"/proc/{pids[role]}/environ").st_uid == 0, role
        ids.add(st["Uid"][0])
    assert len(ids) == 2, "a signal from one would reach the other"


def test_the_resolver_has_no_file_and_no_records(api):
    pid = api.pids()["net"]
    links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
    odd = [x for x in links if not x.startswith(("socket:", "pipe:", "anon_inode:", "/dev/null"))
           and x != api.log]
    assert not odd, odd
    with open(f"/proc/{pid}/limits", encoding="ascii") as f:
        assert "Max core file size        0" in f.read()
