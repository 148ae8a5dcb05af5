# Runs code for one context of the interpreter. Python 3.8 or newer, standard library alone; the
# daemon gives this text to the image's python3, so nothing of it lies in an image.
#
# Two processes. The warden (the parent) speaks with the daemon, captures output and keeps time; the
# worker (the child) runs the code and may close, fork, kill or exhaust what it likes.
#
# From the daemon, lines of words on standard input (a half one, left by a daemon that died, ends
# at the next line's start and is refused by its length):
#   attach NONCE                     say where the stream is; what went before is nobody's
#   run NONCE TIMEOUT_MS LENGTH B64  B64 of: code NUL name=value NUL …
#   alive                            the reader is slow, but there
#   detach                           nobody reads this run any more; it goes on
# To the daemon on standard output: a letter, a decimal length, a newline, so many bytes.
#   a  NONCE idle|busy     the answer to attach, behind a mark to search for
#   o, e                   bytes of standard output, standard error
#   g  o|e COUNT           so many bytes were lost, nobody read them in time
#   x  NAME NUL TEXT NUL TRACEBACK
#   d  NONCE completed|interrupted|timeout
#   z  TEXT                the worker is dead, and so will be the context
import sys

HERE = sys.path[:1] == ['']
if HERE:
    del sys.path[0]  # what lies in the working directory is the code's, not ours
import binascii  # noqa: E402
import errno  # noqa: E402
import fcntl  # noqa: E402
import linecache  # noqa: E402
import os  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import struct  # noqa: E402
import termios  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402

MARK = b'\0caisson-interpreter '
CHUNK = 32768        # bytes of output in one frame
QUEUE = 1 << 20      # bytes that wait for the daemon; beyond, the worker waits
KEEP = 1 << 20       # bytes printed between runs that the next run shows
LINE = 24 << 20      # bytes of a command
PIPE = 1 << 20
GRACE = 2.0          # seconds from the interrupt at a timeout to the kill
SILENCE = 60.0       # seconds without a word from a daemon that doesn't read: it is dead
LAST = 10.0          # seconds for a daemon to read the end
ERROR = 65536        # bytes of an error's text, and of its traceback


def pending(fd):
    return struct.unpack('i', fcntl.ioctl(fd, termios.FIONREAD, b'\0\0\0\0'))[0]


def out_of_the_way(fd):
    """The descriptor under a number that programs don't use, closed by exec."""
    for least in (1000, 100, 10):
        try:
            got = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, least)
            os.close(fd)
            return got
        except OSError:
            continue
    return fd


def pipe():
    r, w = os.pipe()
    return out_of_the_way(r), out_of_the_way(w)


class Worker:
    """The child: a loop around exec. warden: the parent's pid and its ends of the four pipes."""

    def __init__(self, warden, ends):
        self.warden, self.far = warden, ends
        self.pid = os.getpid()
        self.commands = self.replies = -1
        self.mine = {}
        self.count = 0
        self.owed = False  # the warden waits for the end of a run
        self.module = None

    # ---- descriptors, which the code may have closed ----

    def _reopen(self, name, mode):
        return os.open('/proc/%d/fd/%d' % (self.warden, self.far[name]), mode | os.O_CLOEXEC)

    def _is(self, fd, name):
        try:
            s = os.fstat(fd)
        except OSError:
            return False
        return (s.st_dev, s.st_ino) == self.mine[name]

    def adopt(self, commands, replies):
        self.commands, self.replies = commands, replies
        for name, fd in (('commands', commands), ('replies', replies), ('out', 1), ('err', 2)):
            s = os.fstat(fd)
            self.mine[name] = s.st_dev, s.st_ino

    def mend(self):
        """All that is needed is open again, under new numbers where others have the old."""
        if not self._is(self.commands, 'commands'):
            self.commands = out_of_the_way(self._reopen('commands', os.O_RDONLY))
        if not self._is(self.replies, 'replies'):
            self.replies = out_of_the_way(self._reopen('replies', os.O_WRONLY))
        for fd, name in ((1, 'out'), (2, 'err')):
            if not self._is(fd, name):
                got = self._reopen(name, os.O_WRONLY)
                os.dup2(got, fd)
                if got != fd:
                    os.close(got)
                else:
                    os.set_inheritable(fd, True)
        try:
            os.fstat(0)
        except OSError:
            got = os.open('/dev/null', os.O_RDONLY)
            if got != 0:
                os.dup2(got, 0)
                os.close(got)
        streams_mend()

    # ---- messages of the warden ----

    def _read(self, n):
        parts = []
        while n:
            try:
                got = os.read(self.commands, n)
            except OSError as e:
                if e.errno == errno.EAGAIN:
                    select.select([self.commands], [], [])
                    continue
                if e.errno != errno.EBADF:
                    raise
                self.mend()
                continue
            if not got:
                os._exit(0)  # the warden is gone
            parts.append(got)
            n -= len(got)
        return b''.join(parts)

    def _reply(self, kind, payload=b''):
        data = kind + struct.pack('<I', len(payload)) + payload
        while data:
            try:
                data = data[os.write(self.replies, data):]
            except BlockingIOError:
                os.set_blocking(self.replies, True)
            except OSError as e:
                if e.errno != errno.EBADF:
                    raise
                self.mend()

    # ---- running ----

    def serve(self, module):
        while True:
            size, = struct.unpack('<I', self._read(4))
            fields = self._read(size).split(b'\0')
            self.mend()
            self.owed = True
            try:
                self._run(fields[0].decode('utf-8', 'surrogateescape'), fields[1:], module)
            except BaseException as e:  # an interrupt between the code's end and quiet()
                quiet()
                if self.owed:
                    self._report(e)

    def _run(self, code, env, module):
        was = self._env_set(env)
        error = None
        try:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                self._exec(code, module)
            except BaseException as e:
                error = e
            quiet()
        except BaseException as e:  # an interrupt that came late
            error = error or e
            quiet()
        if os.getpid() != self.pid:
            self._forked(error)
        self._env_restore(was)
        self._report(error)

    def _report(self, error):
        report = describe(error) if error is not None else None
        streams_flush()
        self.mend()
        if report:
            self._reply(b'x', report)
        self.owed = False
        self._reply(b'd', b'interrupted' if isinstance(error, KeyboardInterrupt) else b'completed')

    def _exec(self, code, module):
        self.count += 1
        name = '<code %d>' % self.count
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        linecache.cache.pop('<code %d>' % (self.count - 100), None)
        exec(compile(code, name, 'exec', dont_inherit=True), module.__dict__)

    def _forked(self, error):
        """Code that forked and came back here in the child: it is at its end."""
        code = 0
        try:
            if isinstance(error, SystemExit):
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
            elif error is not None:
                code = 1
                traceback.print_exception(type(error), error, trimmed(error))
            streams_flush()
        finally:
            os._exit(code & 255)

    @staticmethod
    def _env_set(pairs):
        """Set name=value…; returns (name, value, what it was)…"""
        was = []
        for pair in pairs:
            name, _, value = os.fsdecode(pair).partition('=')
            was.append((name, value, os.environ.get(name)))
            os.environ[name] = value
        return was

    @staticmethod
    def _env_restore(was):
        """Variables of the run alone go, but for those the code has changed itself."""
        for name, value, old in was:
            if os.environ.get(name) != value:
                continue
            if old is None:
                del os.environ[name]
            else:
                os.environ[name] = old


def quiet():
    """From here on an interrupt does nothing."""
    signal.signal(signal.SIGINT, lambda *a: None)


def trimmed(error):
    """The traceback without this file's own frames."""
    tb = error.__traceback__
    while tb and tb.tb_frame.f_code.co_filename == __file_name__:
        tb = tb.tb_next
    return tb


def shorten(text, most):
    data = text.replace('\0', '\\0').encode('utf-8', 'backslashreplace')
    if len(data) <= most:
        return data
    cut = b'\n... (%d bytes left out) ...\n' % (len(data) - most)
    return data[:most // 2] + cut + data[len(data) - most // 2:]


def describe(error):
    try:
        text = str(error)
    except BaseException as e:
        text = '<unprintable: %s>' % type(e).__name__
    try:
        whole = ''.join(traceback.format_exception(type(error), error, trimmed(error)))
    except BaseException:
        whole = ''
    return b'\0'.join((shorten(type(error).__name__, 256), shorten(text, ERROR),
                       shorten(whole, ERROR)))


# ---- standard streams of the code ----

def settle(fd):
    """Wait, but not for long, until what was printed there is taken: so order survives two pipes."""
    try:
        if not pending(fd):
            return
        end = time.monotonic() + 0.05
        while pending(fd) and time.monotonic() < end:
            time.sleep(0.00005)
    except (OSError, ValueError):
        pass


def streams_make():
    import io

    class Raw(io.RawIOBase):
        def __init__(self, fd):
            self._fd, self._other = fd, 3 - fd
            self.name, self.mode = ('<stdout>', '<stderr>')[fd - 1], 'wb'

        def writable(self):
            return True

        def fileno(self):
            return self._fd

        def write(self, data):
            settle(self._other)
            while True:
                try:
                    return os.write(self._fd, data)
                except BlockingIOError:  # a program set that on the pipe it shares with us
                    os.set_blocking(self._fd, True)

    def text(fd):
        return io.TextIOWrapper(io.BufferedWriter(Raw(fd), 65536), encoding='utf-8',
                                errors='surrogateescape' if fd == 1 else 'backslashreplace',
                                newline='\n', line_buffering=True)
    streams_make.text = text
    sys.stdout = sys.stderr = None
    streams_mend()


def streams_mend():
    for fd, name in ((1, 'stdout'), (2, 'stderr')):
        now = getattr(sys, name, None)
        if now is None or getattr(now, 'closed', False) is True:
            setattr(sys, name, streams_make.text(fd))
            setattr(sys, '__%s__' % name, getattr(sys, name))


def streams_flush():
    for name in ('stdout', 'stderr'):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass


def before_programs():
    """What starts a program waits until the code's own output is out."""
    def ordered(fn):
        def call(*args, **kw):
            streams_flush()
            settle(1)
            settle(2)
            return fn(*args, **kw)
        call.__name__ = getattr(fn, '__name__', 'call')
        call.__doc__ = fn.__doc__
        return call
    for name in ('system', 'posix_spawn', 'posix_spawnp'):
        if hasattr(os, name):
            setattr(os, name, ordered(getattr(os, name)))
    try:
        import _posixsubprocess
        _posixsubprocess.fork_exec = ordered(_posixsubprocess.fork_exec)
    except (ImportError, AttributeError):
        pass


# ---- the parent ----

class Warden:
    def __init__(self, daemon_in, daemon_out):
        self.daemon_in, self.daemon_out = daemon_in, daemon_out
        self.commands_r, self.commands_w = pipe()
        self.replies_r, self.replies_w = pipe()
        self.out_r, self.out_w = pipe()
        self.err_r, self.err_w = pipe()
        self.wake_r, self.wake_w = pipe()
        self.line = bytearray()     # of the daemon
        self.reply = bytearray()    # of the worker
        self.queue = bytearray()    # to the daemon
        self.work = bytearray()     # to the worker
        self.kept, self.kept_bytes = [], 0
        self.lost = {b'o': 0, b'e': 0}
        self.heard = 0.0
        self.nonce = None           # of the run
        self.read = False           # somebody reads this run
        self.began = self.ends = 0.0
        self.status = None
        self.child = 0

    def start(self):
        for fd in (self.out_w, self.err_w):
            try:
                fcntl.fcntl(fd, 1031, PIPE)  # F_SETPIPE_SZ
            except OSError:
                pass
        self.child = os.fork()
        if self.child == 0:
            return False
        for fd in (self.replies_r, self.out_r, self.err_r, self.commands_w, self.daemon_in,
                   self.daemon_out, self.wake_r, self.wake_w):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.wake_w, warn_on_full_buffer=False)
        for sig in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(sig, lambda *a: None)
        return True

    # ---- to the daemon ----

    def frame(self, kind, payload):
        self.queue += b'%s%d\n%s' % (kind, len(payload), payload)

    def flush(self):
        try:
            while self.queue:
                del self.queue[:os.write(self.daemon_out, self.queue[:65536])]
        except BlockingIOError:
            pass
        except OSError:
            os._exit(0)  # the agent is gone

    def output(self, kind, data):
        if self.nonce is not None:
            if self.read:
                self.frame(kind, data)
            return
        self.kept.append((kind, data))
        self.kept_bytes += len(data)
        while self.kept_bytes > KEEP:
            kind, data = self.kept.pop(0)
            self.kept_bytes -= len(data)
            self.lost[kind] += len(data)

    def capture(self, kind, fd, most):
        while most > 0:
            try:
                data = os.read(fd, min(CHUNK, most))
            except BlockingIOError:
                return
            if not data:
                return
            self.output(kind, data)
            most -= len(data)

    def drain(self):
        """What was printed up to now, and not what others print meanwhile."""
        for kind, fd in ((b'o', self.out_r), (b'e', self.err_r)):
            self.capture(kind, fd, pending(fd))

    # ---- from the daemon ----

    def command(self, line):
        words = line.split()
        if not words:
            return
        if words[0] == b'attach' and len(words) == 2:
            self.abandon()
            self.queue += MARK + words[1] + b'\n'
            self.frame(b'a', words[1] + (b' idle' if self.nonce is None else b' busy'))
        elif words[0] == b'detach':
            self.abandon()
        elif words[0] == b'run' and len(words) == 5 and len(words[4]) == int(words[3]):
            if self.nonce is None:
                self.begin(words[1], int(words[2]) / 1000.0, binascii.a2b_base64(words[4]))

    def abandon(self):
        self.queue.clear()
        self.read = False

    def begin(self, nonce, timeout, payload):
        self.drain()  # printed before this run: first in it
        kept, self.kept, self.kept_bytes = self.kept, [], 0
        self.nonce, self.read, self.status = nonce, True, None
        for kind in (b'o', b'e'):
            if self.lost[kind]:
                self.frame(b'g', b'%s %d' % (kind, self.lost[kind]))
                self.lost[kind] = 0
        for kind, data in kept:
            self.frame(kind, data)
        self.began = time.monotonic()
        self.ends = self.began + timeout if timeout else 0.0
        self.work += struct.pack('<I', len(payload)) + payload

    def hear(self):
        try:
            data = os.read(self.daemon_in, 1 << 20)
        except BlockingIOError:
            return
        if not data:
            self.quit()  # the agent is gone
        self.heard = time.monotonic()
        self.line += data
        while True:
            end = self.line.find(b'\n')
            if end < 0:
                break
            line = bytes(self.line[:end])
            del self.line[:end + 1]
            try:
                self.command(line)
            except ValueError:  # no number, no base64: half a line of a daemon that died
                pass
        if len(self.line) > LINE:
            self.line.clear()

    # ---- from the worker ----

    def replies(self):
        try:
            self.reply += os.read(self.replies_r, 1 << 20)
        except BlockingIOError:
            return
        while len(self.reply) >= 5:
            size = struct.unpack_from('<I', self.reply, 1)[0]
            if size > 4 * ERROR:
                self.reply.clear()  # not of our worker
            elif len(self.reply) < 5 + size:
                break
            else:
                kind, payload = bytes(self.reply[:1]), bytes(self.reply[5:5 + size])
                del self.reply[:5 + size]
                self.answer(kind, payload)

    def answer(self, kind, payload):
        if self.nonce is None:
            return
        self.drain()
        if kind == b'x' and self.read and self.status is None:
            self.frame(b'x', payload)
        elif kind == b'd':
            nonce, self.nonce = self.nonce, None
            if payload != b'interrupted':
                payload = b'completed'
            # A daemon that attached meanwhile waits for this too, though not for the output.
            self.frame(b'd', nonce + b' ' + (self.status or payload))

    # ---- time and signals ----

    def interrupt(self):
        """The worker, and what it has started in this run. Others it has started live on."""
        ticks = os.sysconf('SC_CLK_TCK')
        since = time.clock_gettime(time.CLOCK_BOOTTIME) - (time.monotonic() - self.began)
        parents, young = {}, []
        for name in os.listdir('/proc'):
            if not name.isdigit():
                continue
            try:
                with open('/proc/%s/stat' % name, 'rb') as f:
                    fields = f.read().rpartition(b')')[2].split()
            except OSError:
                continue
            parents[int(name)] = int(fields[1])
            if int(fields[19]) >= int(since * ticks):
                young.append(int(name))
        self.send(self.child, signal.SIGINT)
        for pid in young:
            up = pid
            while up in parents and up not in (self.child, 1):
                up = parents[up]
            if up == self.child and pid != self.child:
                self.send(pid, signal.SIGINT)

    @staticmethod
    def send(pid, sig):
        try:
            os.kill(pid, sig)
        except OSError:
            pass

    def signals(self):
        try:
            data = os.read(self.wake_r, 512)
        except BlockingIOError:
            return
        if signal.SIGCHLD in data:
            self.reap()
        if signal.SIGINT in data and self.nonce is not None:
            self.interrupt()

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                self.dead(status)

    def dead(self, status):
        self.replies()
        self.drain()
        if os.WIFSIGNALED(status):
            how = b'signal %d' % os.WTERMSIG(status)
            code = 128 + os.WTERMSIG(status)
        else:
            how, code = b'exit %d' % os.WEXITSTATUS(status), os.WEXITSTATUS(status)
        if self.status:
            how = self.status + b' ' + how
        if self.nonce is not None:
            self.frame(b'z', how)
            self.last_words()
        os._exit(code)

    def last_words(self):
        end = time.monotonic() + LAST
        while self.queue and self.read and time.monotonic() < end:
            poll = select.poll()
            poll.register(self.daemon_out, select.POLLOUT)
            poll.register(self.daemon_in, select.POLLIN)
            poll.poll(1000)
            self.flush()
            self.hear()

    def quit(self):
        self.send(self.child, signal.SIGKILL)
        os._exit(0)

    def clock(self):
        """Do what is due; returns milliseconds to the next time, or None."""
        now, due = time.monotonic(), []
        if self.nonce is not None and self.ends:
            if now >= self.ends:
                if self.status is None:
                    self.status = b'timeout'
                    self.ends = now + GRACE
                    self.interrupt()
                else:
                    self.ends = 0.0
                    self.send(self.child, signal.SIGKILL)
            due += [self.ends] if self.ends else []
        if self.queue:
            if now >= self.heard + SILENCE:
                self.abandon()
            else:
                due.append(self.heard + SILENCE)
        return max(0, int((min(due) - now) * 1000) + 1) if due else None

    def loop(self):
        poll = select.poll()
        while True:
            wait = self.clock()
            want = {self.daemon_in: select.POLLIN, self.replies_r: select.POLLIN,
                    self.wake_r: select.POLLIN}
            # Behind a slow reader the worker waits in its own write.
            if len(self.queue) < QUEUE:
                want[self.out_r] = want[self.err_r] = select.POLLIN
            if self.queue:
                want[self.daemon_out] = select.POLLOUT
            if self.work:
                want[self.commands_w] = select.POLLOUT
            for fd in (self.out_r, self.err_r, self.daemon_out, self.commands_w):
                if fd not in want:
                    try:
                        poll.unregister(fd)
                    except KeyError:
                        pass
            for fd, events in want.items():
                poll.register(fd, events)
            self.turn(dict(poll.poll(wait)))

    def turn(self, ready):
        if self.daemon_in in ready:
            self.hear()
        if self.out_r in ready:
            self.capture(b'o', self.out_r, CHUNK)
        if self.err_r in ready:
            self.capture(b'e', self.err_r, CHUNK)
        if self.replies_r in ready:
            self.replies()
        if self.work:
            try:
                del self.work[:os.write(self.commands_w, self.work[:65536])]
            except BlockingIOError:
                pass
        if self.wake_r in ready:
            self.signals()
        self.flush()


def main():
    warden = Warden(out_of_the_way(os.dup(0)), out_of_the_way(os.dup(1)))
    null = os.open('/dev/null', os.O_RDWR)
    os.dup2(null, 0)
    parent = os.getpid()
    if warden.start():
        os.dup2(null, 1)
        os.dup2(null, 2)
        warden.loop()
    os.close(null)
    os.dup2(warden.out_w, 1)
    os.dup2(warden.err_w, 2)
    for fd in (warden.out_r, warden.out_w, warden.err_r, warden.err_w, warden.commands_w,
               warden.replies_r, warden.wake_r, warden.wake_w, warden.daemon_in,
               warden.daemon_out):
        os.close(fd)
    os.setpgid(0, 0)
    worker = Worker(parent, {'commands': warden.commands_w, 'replies': warden.replies_r,
                             'out': warden.out_r, 'err': warden.err_r})
    worker.adopt(warden.commands_r, warden.replies_w)
    quiet()
    streams_make()
    before_programs()
    os.environ.setdefault('MPLBACKEND', 'Agg')
    sys.argv[:] = ['']
    if HERE:
        sys.path.insert(0, '')
    module = type(sys)('__main__')
    module.__dict__['__builtins__'] = __builtins__
    worker.module, sys.modules['__main__'] = sys.modules['__main__'], module
    worker.serve(module)


__file_name__ = main.__code__.co_filename
main()
