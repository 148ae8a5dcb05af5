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
 *   STAT     {str user, str path, u8 follow}                OK {info}
 *   LIST     {str user, str path, u32 depth, u32 max}       ENTRIES {u32 n, info…}*, OK {u8 more}
 *   OPEN     {str user, str path, u32 flags, u32 mode}      OK {info} + 1 fd (regular file)
 *   MKDIR    {str user, str path, u32 mode, u8 parents}     OK {}
 *   RENAME   {str user, str from, str to}                   OK {}
 *   REMOVE   {str user, str path, u8 recursive}             OK {}
 *   SETATTR  {str user, str path, u8 has_mode, u32 mode,    OK {}
 *             str owner, str group}     (names or ids; "" = leave)
 *   USER     {str user}                                     OK {u32 uid, u32 gid, str name,
 *                                                            str home, str shell}
 *   STATFS   {str path}                                     OK {u64 total, u64 used, u64 avail}
 *   TERM     {u32 grace_ms}   TERM to all but pid 1, then   OK {u32 survivors} once all are gone
 *                             wait at most grace_ms          or the grace is over
 *   any      -                                              ERR {u16 err_code, u32 errno,
 *                                                            str tag, str msg}
 *   info = {str name, str path, u8 type, u32 mode (07777), u32 uid, u32 gid, u64 size,
 *           i64 mtime_ns, str link}      type: 'f' 'd' 'l' 'p' 's' 'c' 'b'
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

enum agent_verb {
	AGENT_HELLO = 1,
	AGENT_SPAWN = 2,
	AGENT_SIGNAL = 3,
	AGENT_RESIZE = 4,
	AGENT_KILL = 5,
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
	/* replies */
	AGENT_OK = 100,
	AGENT_ERR = 101,
	AGENT_SPAWNED = 102,
	AGENT_EXITED = 103,
	AGENT_ENTRIES = 104,
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

enum agent_exit_how { AGENT_EXIT_CODE = 0, AGENT_EXIT_SIGNAL = 1 };

#endif
