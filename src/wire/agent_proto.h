/*
 * agent_proto.h - messages between the api process and caisson-init.
 *
 * One unix stream connection per operation, frames of wire.h. The api sends one request frame and
 * reads replies until AGENT_OK, AGENT_ERR or, for a spawn, AGENT_EXITED. Descriptors travel only
 * from the agent to the api, on the first byte of the reply that names them. Neither side trusts
 * the other: every frame has a ceiling, every reader ends with wire_in_end().
 *
 * Sandboxes live longer than daemons: numbers are never reused, new fields come as new verbs or
 * behind a feature bit of HELLO.
 *
 *   verb     request payload                                reply
 *   HELLO    -                                              OK {u32 proto, u32 features}
 *   SPAWN    {strv argv, strv env, str cwd, str user,       SPAWNED {u32 pid, u32 uid, u32 gid,
 *             u32 flags, u16 cols, u16 rows}                 str cwd, u8 fell_back} + fds, later
 *                                                           EXITED {u8 how, u32 code, u64 user_us,
 *                                                            u64 sys_us, u64 maxrss_kib}
 *     while it runs the api may send, on the same connection:
 *     SIGNAL {u32 sig, u8 tree}, RESIZE {u16 cols, u16 rows}, KILL {} (whole tree, cgroup.kill)
 *     Hang-up of the api before EXITED kills the tree.
 *     fds: tty: [master]; else [stdin if SPAWN_STDIN] [stdout] [stderr unless SPAWN_MERGE]
 *   NOTES    -    the last failures told to the daemon      OK {str lines}: "ms id text\n", wall
 *                                                            time, request id or "-"
 *   STAT     {str user, str path, u8 follow}                OK {info}
 *   LIST     {str user, str path, u32 depth, u32 max}       ENTRIES {u32 n, info…}*, OK {u8 more}
 *   OPEN     {str user, str path, u32 flags, u32 mode}      OK {info} + 1 fd (regular file)
 *   MKDIR    {str user, str path, u32 mode, u8 parents}     OK {}
 *   RENAME   {str user, str from, str to}                   OK {}
 *   REMOVE   {str user, str path, u8 recursive}             OK {}
 *   SETATTR  {str user, str path, u8 has_mode, u32 mode,    OK {}
 *             str owner, str group}     (names or ids; "" = leave)
 *   FIND     {str user, str path, str pattern, u32 max}     MATCHES {u32 n, match…}*, OK {u8 more}
 *             text below a directory or in a file
 *   SEARCH   {str user, str path, str pattern, u32 max}     NAMES {u32 n, str path…}*, OK {u8 more}
 *             shell glob on base names
 *   PUT      {str user, str path, u32 flags, u32 mode}      OK {u8 existed} + 1 fd: an empty file
 *                                                            to write that nobody sees yet
 *     COMMIT {u8 has_mtime, u64 mtime_ns} on the same        OK {u8 atomic, u64 size}
 *     connection: it takes the place of the file. Hang-up before: nothing has happened.
 *   WATCH    {str user, str path, u8 recursive}             OK {} once it stands, then
 *             until hang-up                                  EVENTS {u32 n, event…}*, and OK {}
 *                                                            when the place itself is gone
 *   LINK     {str user, str path, str to, u8 hard}          OK {}   to is the new name; path its
 *                                                            text, or the file when hard
 *   USER     {str user}                                     OK {u32 uid, u32 gid, str name,
 *                                                            str home, str shell}
 *   STATFS   {str path}                                     OK {u64 total, u64 used, u64 avail}
 *   PORTS    -    listening TCP ports, ascending             OK {u32 n, u16 port…}
 *   TRAFFIC  -    of all interfaces but lo, since start      OK {u64 rx_bytes, u64 rx_packets,
 *                                                            u64 tx_bytes, u64 tx_packets}
 *   TERM     {u32 grace_ms}   TERM to all but pid 1, then   OK {u32 survivors} once all are gone
 *                             wait at most grace_ms          or the grace is over
 *   any      -                                              ERR {u16 err_code, u32 errno,
 *                                                            str tag, str msg}
 *
 * Tasks are what outlives its connection: detached execs, sessions and their commands, terminals,
 * interpreters. The agent keeps their record, output and end until TASK_REMOVE or a day after the
 * end. Ids are chosen by the daemon, at most TASK_ID_MAX bytes; an id names one task for ever.
 *
 *   TASK_START {str id, str label, u32 kind, u32 tflags,    OK {task, u8 existed}   a known id
 *               u64 timeout_ms, strv argv, strv env,         starts nothing (exactly once)
 *               str cwd, str user, u32 flags, u16 cols,
 *               u16 rows}   TASK_SESSION: argv is empty
 *   TASK_EXEC  {str session, str id, str text, u32 tflags,  OK {task, u8 existed}   queued in the
 *               u64 timeout_ms}                              session's order; its label is
 *                                                            the beginning of the text
 *   TASK_GET   {str id}                                     OK {task}
 *   TASK_LIST  {u32 kind, str parent}   (0, "": any)        TASKS {u32 n, task…}*, OK {}
 *   TASK_READ  {str id, u32 streams, u64 out, u64 err,      DATA {u8 stream, u64 offset, bytes}*
 *               u8 follow}   offsets to begin at; of bytes   GAP {u8 stream, u64 from, u64 to}*
 *               that were dropped a GAP tells; ~0: the end   OK {task}  all sent (follow: and
 *               (only what comes from now on)                ended and drained)
 *   TASK_WRITE {str id, u8 eof, bytes}   at most            OK {u64 written}  when the task took
 *               TASK_WRITE_MAX                               them, or nobody reads any more: ERR
 *   TASK_SIGNAL {str id, u32 sig, u8 tree}                  OK {}
 *   TASK_RESIZE {str id, u16 cols, u16 rows}                OK {task}
 *   TASK_KILL  {str id, u32 grace_ms}  TERM, grace, KILL    OK {task}  once ended
 *               to the whole tree
 *   TASK_REMOVE {str id}   killed when it runs, forgotten   OK {}
 *               with its output and, of a session, commands
 *   TASK_ATTACH {str id}   of TASK_PIPES                    OK {task} + fds [stdin] [stdout]
 *   task = {str id, str parent, str label, u32 kind, u8 state, u8 how, u32 code, u8 cause,
 *           u32 pid, u32 uid, u32 gid, str cwd, u16 cols, u16 rows, u64 created_ms,
 *           u64 started_ms, u64 ended_ms (wall, 0 not yet), u64 out_first, u64 out_total,
 *           u64 err_first, u64 err_total, u64 user_us, u64 sys_us, u64 maxrss_kib}
 *           *_first: the oldest byte still kept; *_total: bytes produced so far
 *   info = {str name, str path, u8 type, u32 mode (07777), u32 uid, u32 gid, u64 size,
 *           i64 mtime_ns, str link}      type: 'f' 'd' 'l' 'p' 's' 'c' 'b'
 *
 *   match = {str path, u32 line, u8 cut, str text}    line from 1; cut: the line is longer
 *   event = {u8 kind, u8 type, str path, str from}    from: of a rename whose old name is known
 *
 * The daemon's end of a connection may be bound to the abstract name AGENT_REQID_NAME, the id of
 * the request it works for, "/" and a number: the id goes through all three processes without a
 * field in any message, an agent looks only when it has a failure to note, and one that doesn't
 * know of names notices nothing.
 *
 * user: "", name, uid, name:group or uid:gid, as in Docker; "" is root. File verbs run with that
 * user's ids, groups and no capabilities (unless it is root), and resolve in the agent's root.
 */
#ifndef CAISSON_WIRE_AGENT_PROTO_H
#define CAISSON_WIRE_AGENT_PROTO_H

#include <stdint.h>

#define AGENT_PROTO_VERSION 1
/* In the file of every caisson-init, by which a daemon tells it from other programs. */
#define AGENT_MARKER	  "caisson-init: pid 1 of a sandbox, protocol 1"
#define AGENT_REQUEST_MAX (1u << 20)   /* payload bytes of a request */
#define AGENT_REPLY_MAX	  (256u << 10) /* payload bytes of one reply frame */
#define AGENT_ARGS_MAX	  4096	       /* items of argv, and of env */
#define AGENT_LIST_MAX	  200000       /* entries of one listing; beyond: more = 1 */
#define AGENT_USER_MAX	  256	       /* bytes of a user string */
#define AGENT_NOTES_MAX	  4096	       /* bytes of kept notes */
#define AGENT_REQID_NAME  "caisson/"
#define AGENT_REQID_MAX	  24 /* bytes of a request id with its NUL */

enum agent_verb {
	AGENT_HELLO = 1,
	AGENT_SPAWN = 2,
	AGENT_SIGNAL = 3,
	AGENT_RESIZE = 4,
	AGENT_KILL = 5,
	AGENT_NOTES = 6,
	AGENT_STAT = 10,
	AGENT_LIST = 11,
	AGENT_OPEN = 12,
	AGENT_MKDIR = 13,
	AGENT_RENAME = 14,
	AGENT_REMOVE = 15,
	AGENT_SETATTR = 16,
	AGENT_USER = 17,
	AGENT_STATFS = 18,
	AGENT_TERM = 19,
	AGENT_FIND = 20, /* 20..35: files and system, in the order they were added */
	AGENT_SEARCH = 21,
	AGENT_PUT = 22,
	AGENT_COMMIT = 23,
	AGENT_WATCH = 24,
	AGENT_LINK = 25,
	AGENT_PORTS = 31,
	AGENT_TRAFFIC = 32,
	AGENT_TASK_START = 40,
	AGENT_TASK_EXEC = 41,
	AGENT_TASK_GET = 42,
	AGENT_TASK_LIST = 43,
	AGENT_TASK_READ = 44,
	AGENT_TASK_WRITE = 45,
	AGENT_TASK_SIGNAL = 46,
	AGENT_TASK_RESIZE = 47,
	AGENT_TASK_KILL = 48,
	AGENT_TASK_REMOVE = 49,
	AGENT_TASK_ATTACH = 50,
	/* replies */
	AGENT_OK = 100,
	AGENT_ERR = 101,
	AGENT_SPAWNED = 102,
	AGENT_EXITED = 103,
	AGENT_ENTRIES = 104,
	AGENT_TASKS = 105,
	AGENT_DATA = 106,
	AGENT_GAP = 107,
	AGENT_MATCHES = 108,
	AGENT_NAMES = 109,
	AGENT_EVENTS = 110,
};

enum agent_spawn_flag {
	SPAWN_SHELL = 1 << 0, /* argv[0] is shell text: bash, else sh of the image, -c text */
	SPAWN_TTY = 1 << 1,   /* own terminal, controlling, session leader */
	SPAWN_STDIN = 1 << 2, /* a pipe for stdin; without it stdin is /dev/null */
	SPAWN_MERGE = 1 << 3, /* stderr goes into the stdout pipe, in order */
	SPAWN_CWD_FALLBACK = 1 << 4, /* unusable cwd: use home, else "/", and say so */
};

enum agent_open_flag {
	AGENT_OPEN_READ = 1 << 0,
	AGENT_OPEN_WRITE = 1 << 1,
	AGENT_OPEN_CREATE = 1 << 2,
	AGENT_OPEN_TRUNC = 1 << 3,
	AGENT_OPEN_PARENTS = 1 << 4, /* make missing parent directories, 0755 */
	AGENT_OPEN_APPEND = 1 << 5,
};

enum agent_put_flag {
	AGENT_PUT_PARENTS = 1 << 0,  /* make missing parent directories, 0755 */
	AGENT_PUT_NOFOLLOW = 1 << 1, /* a symlink at the end is replaced, not followed */
	AGENT_PUT_MODE = 1 << 2,     /* mode also for a file that is there; else it keeps its own */
};

enum agent_event_kind {
	AGENT_EVENT_CREATE = 1,
	AGENT_EVENT_WRITE = 2, /* written to; the last one when the writer closed it */
	AGENT_EVENT_REMOVE = 3,
	AGENT_EVENT_RENAME = 4,	  /* it has left this name */
	AGENT_EVENT_CHMOD = 5,	  /* mode, owner, times, xattrs */
	AGENT_EVENT_OVERFLOW = 6, /* events were lost: look at everything again; path is the root */
	AGENT_EVENT_LIMIT = 7,	  /* directories below path are not watched: a ceiling was hit */
};

#define AGENT_FIND_TEXT	  4096	/* bytes of a line that are shown */
#define AGENT_PATTERN_MAX 1024	/* bytes */
#define AGENT_FIND_MAX	  10000 /* matches of one FIND; beyond: more = 1 */

#define TASK_ID_MAX    160	    /* bytes */
#define TASK_LABEL_MAX 4096	    /* the daemon's own notes on a task, kept as they are */
#define TASK_WRITE_MAX (256u << 10) /* bytes of one write */
#define TASK_RING_MAX  (8u << 20)   /* kept bytes of one stream */
#define TASK_LOGS_MAX  (64u << 20)  /* of all streams together; at most 1/8 of the memory limit */
#define TASK_KEEP_MS   (24 * 3600 * 1000) /* after the end */

enum task_kind {
	TASK_DETACHED = 1,
	TASK_SESSION = 2,
	TASK_COMMAND = 3,
	TASK_PTY = 4,
	TASK_INTERPRETER = 5
};
enum task_state { TASK_QUEUED = 1, TASK_RUNNING = 2, TASK_ENDED = 3 };
/* Why it ended. TASK_LOST: the session's shell ended before the command's turn. */
enum task_cause {
	TASK_EXITED = 0,
	TASK_SIGNALED = 1,
	TASK_TIMED_OUT = 2,
	TASK_KILLED = 3,
	TASK_LOST = 4
};

enum task_flag {
	TASK_STDIN =
		1 << 0, /* input stays open for TASK_WRITE; else it is at its end from the start */
	TASK_ECHO = 1 << 1,  /* what is written also goes into the log, as stdout */
	TASK_PIPES = 1 << 2, /* no log: stdin and stdout are kept for TASK_ATTACH, stderr joins
				stdout or, with TASK_NO_STDERR, goes to /dev/null */
	TASK_NO_STDERR = 1 << 3,
};

enum agent_exit_how { AGENT_EXIT_CODE = 0, AGENT_EXIT_SIGNAL = 1 };

#endif
