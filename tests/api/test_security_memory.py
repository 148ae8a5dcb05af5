"""What sandboxes print at once must not use up the daemon's memory."""
import threading

ARGS = ("--output-max", "8M")
ROUNDS = 8
BYTES = 8 << 20


def peak_kib(api):
    with open(f"/proc/{api.pids()['api']}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM:"))


def crowd(api, work):
    got = []
    threads = [threading.Thread(target=lambda: got.append(work())) for _ in range(ROUNDS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


def test_outputs_share_a_bound(api, box):
    """Each byte 1 is six in JSON: 8 times 8 MiB would be 384 MiB."""
    command = f"head -c {BYTES} /dev/zero | tr '\\0' '\\001'; exit 3"
    before = peak_kib(api)
    replies = crowd(api, lambda: api.exec(box, command, timeout=30))
    assert all(r["exitCode"] == 3 for r in replies)
    for r in replies:
        whole = len(r["result"]) == BYTES
        assert whole or (r["truncated"] and r["totalBytes"] == BYTES), len(r["result"])
        assert len(r["result"]) > 128 << 10
        assert set(r["result"]) == {"\x01"}
    assert peak_kib(api) - before < 160 << 10
    # Nothing stays held: the next output is whole again.
    assert len(api.exec(box, command, timeout=30)["result"]) == BYTES


def test_small_outputs_pass_beside_large_ones(api, box):
    command = f"head -c {BYTES} /dev/zero | tr '\\0' '\\001'"
    small = []

    def work():
        api.exec(box, command, timeout=30)
        small.append(api.exec(box, "seq 1 10000"))
    crowd(api, work)
    assert all("truncated" not in r and len(r["result"]) == 48894 for r in small)
