"""What a daemon has of the kernel's and the disk's things, counted; what is left when it is gone.

A test takes a census while its daemon is idle, works, and waits for the same census again:

    before = leftovers.census(d)
    …
    leftovers.settle(d, before)          # AssertionError naming what is left
    leftovers.assert_gone(d.instance…)   # after a stop with --on-exit destroy

Only things that carry the instance's name are looked at, so daemons of other tests do no harm.
"""
import ctypes
import glob
import json
import os
import re
import socket
import subprocess
import time

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _in_netns(path, *argv):
    out = subprocess.run(["nsenter", f"--net={path}", *argv], capture_output=True, text=True,
                         check=False)
    return out.stdout if out.returncode == 0 else ""


def mounts(*words):
    """Mounts in our namespace whose place or source names one of the words."""
    lines = _read("/proc/self/mountinfo").splitlines()
    return sorted(line.split()[4] for line in lines if any(w in line for w in words))


def cgroups(instance):
    """Sandboxes' groups in every mounted hierarchy."""
    found = set()
    for line in _read("/proc/mounts").splitlines():
        _, place, kind = line.split()[:3]
        if not kind.startswith("cgroup"):
            continue
        for p in glob.glob(f"{place}/caisson-{instance}/*") + glob.glob(
                f"{place}/*/caisson-{instance}/*"):
            if os.path.isdir(p) and UUID.match(os.path.basename(p)):
                found.add(p)
    return sorted(found)


def groups(instance):
    """How many groups an instance has in all hierarchies, those of its pool included."""
    n = 0
    for line in _read("/proc/mounts").splitlines():
        _, place, kind = line.split()[:3]
        if kind.startswith("cgroup"):
            try:
                n += os.stat(f"{place}/caisson-{instance}").st_nlink - 2
            except OSError:
                pass
    return n


def processes(instance):
    """Processes inside sandboxes: their cgroup says so."""
    found = []
    for p in glob.glob("/proc/[0-9]*"):
        if f"/caisson-{instance}/" in _read(f"{p}/cgroup"):
            found.append(f"{os.path.basename(p)} {_read(p + '/comm').strip()}")
    return sorted(found)


def roles(data_dir):
    """pid: command line of the daemon's own processes."""
    found = {}
    for p in glob.glob("/proc/[0-9]*/cmdline"):
        words = _read(p).split("\0")
        if words and os.path.basename(words[0]).startswith("caissond") and data_dir in words:
            found[int(p.split("/")[2])] = " ".join(words).strip()
    return found


def links(netns, instance):
    try:
        return sorted(link["ifname"] for link in json.loads(_in_netns(netns, "ip", "-j", "link"))
                      if link["ifname"].startswith(f"cs{instance[:4]}"))
    except ValueError:
        return []


def elements(netns):
    """How many elements each set and map of a namespace's tables has; what times out not counted.
    Pools renew themselves, so names say nothing and numbers do."""
    try:
        rules = json.loads(_in_netns(netns, "nft", "-j", "list", "ruleset"))["nftables"]
    except (ValueError, KeyError):
        return {}
    return {f"{s['table']}/{s['name']}": len(s.get("elem", []))
            for row in rules for s in row.values() if isinstance(s, dict) and "elem" in s
            and "dynamic" not in s.get("flags", []) and "timeout" not in s}


def uppers(data_dir):
    try:
        return sorted(n for n in os.listdir(f"{data_dir}/boxes") if UUID.match(n))
    except OSError:
        return []


def trash(data_dir):
    try:
        return sorted(os.listdir(f"{data_dir}/trash"))
    except OSError:
        return []


def run_boxes(run_dir):
    try:
        return sorted(n for n in os.listdir(f"{run_dir}/boxes") if UUID.match(n))
    except OSError:
        return []


def fds(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def census(d):
    """d has data_dir, run_dir (of the instance), instance, uplink (path) and pids()."""
    router = f"{d.run_dir}/router.ns"
    return {
        "mounts": mounts(d.data_dir, d.run_dir),
        "cgroups": cgroups(d.instance),
        "groups": groups(d.instance),
        "processes": processes(d.instance),
        "router links": len(links(router, d.instance)),
        "uplink links": links(d.uplink, d.instance) if d.uplink else [],
        "nft elements": elements(router),
        "uppers": uppers(d.data_dir),
        "trash": trash(d.data_dir),
        "run directories": run_boxes(d.run_dir),
        "descriptors": {role: fds(pid) for role, pid in d.pids().items()},
    }


def steady(d, seconds=15):
    """A census that does not change any more: the pools are full."""
    deadline = time.monotonic() + seconds
    last = census(d)
    while time.monotonic() < deadline:
        time.sleep(0.4)
        now = census(d)
        if now == last:
            break
        last = now
    return last


# Pools breathe: a few links and the descriptors that belong to them may differ.
SLACK = {"groups": 20, "router links": 4, "descriptors": 32, "nft elements": 8}


def difference(before, now):
    out = []
    for key, old in before.items():
        new, slack = now[key], SLACK.get(key, 0)
        if isinstance(old, dict):
            out += [f"{key} of {role}: {n - old[role]} more" for role, n in new.items()
                    if role in old and n > old[role] + slack]
        elif isinstance(old, int):
            if new > old + slack:
                out.append(f"{key}: {new - old} more")
        else:
            more = [x for x in new if x not in old]
            if len(more) > slack:
                out.append(f"{key}: {', '.join(map(str, more[:5]))}"
                           + (f" and {len(more) - 5} more" if len(more) > 5 else ""))
    return out


def settle(d, before, seconds=30):
    """Wait until nothing is there that was not before; cleaning is in the background."""
    deadline = time.monotonic() + seconds
    while True:
        left = difference(before, census(d))
        if not left:
            return
        if time.monotonic() > deadline:
            raise AssertionError("left behind: " + "; ".join(left))
        time.sleep(0.1)


def link_count(netns):
    """Links of a namespace without starting a program: cheap enough to poll."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(netns, os.O_RDONLY)
    try:
        if libc.setns(there, 0x40000000) != 0:
            return -1
        return len(socket.if_nameindex())
    finally:
        libc.setns(own, 0x40000000)
        os.close(own)
        os.close(there)


def settled_quickly(d, before):
    """Teardown finished and pools full again, by what costs a millisecond to look at. Parked
    sandboxes are others than before, so uppers and run directories are counted; a pool may hold
    a few more than before."""
    return (trash(d.data_dir) == before["trash"]
            and len(uppers(d.data_dir)) == len(before["uppers"])
            and len(run_boxes(d.run_dir)) == len(before["run directories"])
            and 0 <= groups(d.instance) - before["groups"] <= SLACK["groups"]
            and link_count(f"{d.run_dir}/router.ns") >= before["router links"])


def gone(data_dir, run_dir, instance, uplink=None):
    """What of a daemon that ended with --on-exit destroy is still there."""
    left = {
        "mounts": mounts(data_dir, run_dir),
        "cgroups": cgroups(instance),
        "processes": processes(instance),
        "daemon": list(roles(data_dir)),
        "uplink links": links(uplink, instance) if uplink else [],
        "uppers": uppers(data_dir),
        "run directories": run_boxes(run_dir),
    }
    if uplink:
        tables = _in_netns(uplink, "nft", "list", "tables")
        left["uplink tables"] = [t for t in tables.splitlines() if f"caisson_{instance}" in t]
    return [f"{k}: {v}" for k, v in left.items() if v]


def assert_gone(data_dir, run_dir, instance, uplink=None, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        left = gone(data_dir, run_dir, instance, uplink)
        if not left:
            return
        if time.monotonic() > deadline:
            raise AssertionError("left behind: " + "; ".join(left))
        time.sleep(0.1)
