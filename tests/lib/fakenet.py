#!/usr/bin/python3
"""A fake internet in network namespaces of its own, for tests. Needs root, nothing else.

    tests/lib/fakenet.py [--no-v6] [--no-forward] -- COMMAND ARG...

runs COMMAND (in the caller's namespaces) with these set in its environment:

    CAISSON_TEST_UPLINK   path of the namespace that plays the host (for --uplink-netns)
    CAISSON_TEST_INET     path of the namespace that plays the internet
    CAISSON_TEST_RESOLVERS  upstream resolvers that exist there (for --resolvers)
    CAISSON_TEST_DIR      a directory that is emptied and removed at the end, mounts included
    CAISSON_TEST_LOG      file with a line for every name asked and every datagram to port 9

The host has an ordinary public address on each family and a default route to the internet, which
holds public addresses with servers, and on purpose also private, metadata and test addresses:
a packet that a filter lets through arrives, and fails the test, but never leaves the machine.
Services on all addresses: 7 echo (TCP, UDP), 9 datagrams logged, 19 a byte every 20 ms,
53 DNS (UDP, TCP), 80 and 443 HTTP saying who asks. On the host: 8080 the same HTTP.
Names: good.test (A, AAAA), v4.test, v6.test, big.test (TXT of 3000 bytes), slow.test (no answer).

Nothing is pinned: the namespaces live as long as the two server processes, which die with this
one, however it ends.
"""
import argparse
import asyncio
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile

HOST4, HOST6 = "93.184.215.10", "2a00:1450:4001::10"
GATE4, GATE6 = "93.184.215.1", "2a00:1450:4001::1"
WEB4, WEB6 = "93.184.216.34", "2606:2800:220:1::34"
DNS4, DNS6 = "9.9.9.9", "2620:fe::fe"
PUBLIC = [WEB4, WEB6, DNS4, DNS6, "8.8.8.8", "1.1.1.1", "2001:4860:4860::8888"]
FORBIDDEN = ["10.1.2.3", "172.16.5.5", "192.168.1.1", "169.254.169.254", "169.254.9.9",
             "100.64.1.1", "100.100.100.200", "192.0.2.1", "198.51.100.1", "203.0.113.1",
             "192.88.99.1", "240.0.0.1", "fd00:ec2::254", "fd12:3456::1", "64:ff9b::a9fe:a9fe",
             "2002:a9fe:a9fe::1", "2001:db8::1", "fec0::1", "100::1"]
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def ns_run(ns, *argv, **kw):
    subprocess.run(["nsenter", f"--net={ns}", *argv], check=True, **kw)


# ---------------------------------------------------------------- servers

def name_of(packet):
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("latin1"))
        at += 1 + packet[at]
    return ".".join(labels), packet[at + 1:at + 5], at + 5


def dns_answer(packet, log, tcp):
    name, kind, end = name_of(packet)
    (qtype,) = struct.unpack(">H", kind[:2])
    log(f"dns {name} {qtype}")
    if name.lower().startswith("slow."):
        return None
    data = {("good.test", 1): socket.inet_pton(socket.AF_INET, WEB4),
            ("good.test", 28): socket.inet_pton(socket.AF_INET6, WEB6),
            ("v4.test", 1): socket.inet_pton(socket.AF_INET, WEB4),
            ("v6.test", 28): socket.inet_pton(socket.AF_INET6, WEB6),
            ("big.test", 16): b"".join(b"\xfa" + b"x" * 250 for _ in range(12)),
            }.get((name.lower(), qtype))
    known = name.lower() in ("good.test", "v4.test", "v6.test", "big.test")
    body = b""
    if data:
        body = b"\xc0\x0c" + kind + struct.pack(">IH", 1, len(data)) + data
    flags = 0x8180 | (0 if known else 3)
    if body and not tcp and len(body) > 512:
        flags, body = flags | 0x0200, b""
    return packet[:2] + struct.pack(">HHHHH", flags, 1, 1 if body else 0, 0, 0) \
        + packet[12:end] + body


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, port, log):
        self.port, self.log = port, log

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        if self.port == 7:
            self.transport.sendto(data, addr)
        elif self.port == 9:
            self.log(f"datagram {addr[0]} {data[:64].decode('latin1')}")
        elif self.port == 53:
            reply = dns_answer(data, self.log, False)
            if reply:
                self.transport.sendto(reply, addr)


def stream_server(port, log):
    async def echo(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def ticks(reader, writer):
        while True:
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def dns(reader, writer):
        while True:
            (n,) = struct.unpack(">H", await reader.readexactly(2))
            reply = dns_answer(await reader.readexactly(n), log, True)
            if reply:
                writer.write(struct.pack(">H", len(reply)) + reply)
                await writer.drain()

    async def http(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = f"from {writer.get_extra_info('peername')[0]}\n".encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                     % (len(body), body))
        await writer.drain()

    serve = {7: echo, 19: ticks, 53: dns}.get(port, http)

    async def guard(reader, writer):
        try:
            await serve(reader, writer)
        except (OSError, EOFError, asyncio.IncompleteReadError, struct.error):
            pass
        finally:
            writer.close()
    return guard


async def serve(addresses, tcp, udp, log_path, ready):
    loop = asyncio.get_running_loop()
    out = open(log_path, "a", buffering=1)
    log = lambda line: out.write(line + "\n")
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for port in udp:
            await loop.create_datagram_endpoint(lambda p=port: Datagrams(p, log),
                                                local_addr=(address, port), family=family)
    for port in tcp:
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", port))
        await asyncio.start_server(stream_server(port, log), sock=sock, backlog=1024)
    os.write(ready, b"+")
    await asyncio.Event().wait()


class Namespace:
    """A process in a new network namespace: it waits for its set-up, then serves."""

    def __init__(self, addresses, tcp, udp, log_path):
        here, there = socket.socketpair()
        self.sock = here
        self.pid = os.fork()
        if self.pid == 0:
            die_with_parent()
            here.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if libc.unshare(CLONE_NEWNET) != 0:
                os._exit(1)
            there.send(b"n")
            if there.recv(1) != b"g":
                os._exit(1)
            asyncio.run(serve(addresses, tcp, udp, log_path, there.fileno()))
            os._exit(1)
        there.close()
        self.expect(b"n")
        self.path = f"/proc/{self.pid}/ns/net"

    def expect(self, what):
        if self.sock.recv(1) != what:
            raise RuntimeError("a server of the fake internet did not start")

    def go(self):
        self.sock.send(b"g")
        self.expect(b"+")

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def setup(host, inet, v6, forward):
    """One wire, ordinary addresses, a default route; every other address sits on inet's lo."""
    ns_run(host.path, "ip", "link", "add", "pub0", "type", "veth", "peer", "name", "net0",
           "netns", inet.path)
    lines = {host.path: [f"addr add {HOST4}/24 dev pub0"], inet.path: [
        f"addr add {GATE4}/24 dev net0"]}
    if v6:
        lines[host.path].append(f"addr add {HOST6}/64 dev pub0 nodad")
        lines[inet.path].append(f"addr add {GATE6}/64 dev net0 nodad")
    for path, dev in ((host.path, "pub0"), (inet.path, "net0")):
        lines[path] += ["link set lo up", f"link set {dev} up"]
    lines[host.path].append(f"route add default via {GATE4}")
    if v6:
        lines[host.path].append(f"route add ::/0 via {GATE6}")
    for address in PUBLIC + FORBIDDEN:
        if ":" in address:
            if v6:
                lines[inet.path].append(f"addr add {address}/128 dev lo nodad")
        else:
            lines[inet.path].append(f"addr add {address}/32 dev lo")
    for path, text in lines.items():
        ns_run(path, "ip", "-batch", "-", input="\n".join(text), text=True)
    switches = [f"net.ipv4.ip_forward={int(forward)}",
                f"net.ipv6.conf.all.forwarding={int(forward and v6)}"]
    ns_run(host.path, "sysctl", "-qw", *switches)
    four = ", ".join(a for a in FORBIDDEN if ":" not in a)
    six = ", ".join(a for a in FORBIDDEN if ":" in a)
    ns_run(inet.path, "nft", "-f", "-", text=True, input=f"""
        table inet watch {{
            counter forbidden {{ }}
            chain arrivals {{
                type filter hook prerouting priority raw; policy accept;
                iif "net0" ip daddr {{ {four} }} counter name forbidden
                iif "net0" ip6 daddr {{ {six} }} counter name forbidden
            }}
        }}""")


def unmount_below(top):
    with open("/proc/self/mounts") as f:
        points = [line.split()[1] for line in f]
    for point in reversed([p for p in points if p.startswith(top + "/")]):
        subprocess.run(["umount", "-l", point], check=False)


def main():
    parser = argparse.ArgumentParser(description="run a command beside a fake internet")
    parser.add_argument("--no-v6", action="store_true")
    parser.add_argument("--no-forward", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command")
    v6 = not args.no_v6
    with tempfile.TemporaryDirectory(prefix="caisson-fakenet-") as tmp:
        log = os.path.join(tmp, "log")
        open(log, "w").close()
        here = [GATE4] + ([GATE6] if v6 else [])
        mine = [a for a in PUBLIC + FORBIDDEN if v6 or ":" not in a]
        spaces = [Namespace([], [8080, 22], [], log),
                  Namespace(here + mine, [7, 19, 53, 80, 443], [7, 9, 53], log)]
        try:
            setup(*spaces, v6, not args.no_forward)
            for space in spaces:
                space.go()
            env = dict(os.environ, CAISSON_TEST_UPLINK=spaces[0].path,
                       CAISSON_TEST_INET=spaces[1].path, CAISSON_TEST_LOG=log,
                       CAISSON_TEST_DIR=tmp,
                       CAISSON_TEST_RESOLVERS=DNS4)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            child = subprocess.Popen(command, env=env, preexec_fn=die_with_parent)
            try:
                code = child.wait()
            finally:
                if child.poll() is None:
                    child.kill()
                    child.wait()
        finally:
            for space in spaces:
                space.end()
            unmount_below(tmp)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
