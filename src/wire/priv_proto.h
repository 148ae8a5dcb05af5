/*
 * priv_proto.h - messages across the privilege line: api process <-> root runner.
 *
 * One SEQPACKET socketpair; a message is {u32 seq, u16 verb, str reqid, payload} in wire format,
 * at most PRIV_MSG_MAX bytes. Replies carry the request's seq and verb PRIV_OK or PRIV_ERR
 * {u16 err_code, u32 errno, str msg}; events have seq 0. The runner doubts every argument: ids
 * are UUIDs, layer ids [0-9a-f]{64}, numbers have ranges, there is no path of a client. An unknown
 * verb, short or left-over bytes, or a range broken: the peer is killed.
 *
 *   verb        request                                        reply
 *   HELLO       {u32 proto}                                    {str instance, str run_dir}
 *   START       {str id, u8 fresh, strv layers (top first),    {u32 pid, str ip4, str ip6,
 *                u64 mem_bytes, u32 cpu_milli, u32 pids_max,    u32 total_us}
 *                u32 nofile, u64 disk_bytes, u32 flags,
 *                str hostname}
 *   KILL        {str id}    all processes dead, runtime gone   {}
 *   DELETE      {str id}    as KILL; upper moved to the trash  {}   (emptied in the background)
 *   STATS       {str id}                                       {stats}
 *   LIST        {u8 what (0 live, 1 uppers), str after}        {u32 n, (str id, u32 pid)…}
 *               ids greater than after ("" first), ascending,
 *               at most PRIV_LIST_PAGE; fewer than that: the end
 *   NET         {str id, u32 flags}   live policy change       {}
 *   IMPORT      {u64 max_bytes} + 1 fd (tar, any compression)  {str layer, u64 bytes, u64 files}
 *   DEFAULT     {}  unpack --default-image if need be          {str layer, u64 bytes, u64 files}
 *   LAYER_RM    {str layer}                                    {}
 *   HOST        {}                                             {u64 disk_total, u64 disk_free,
 *                                                               u64 mem_total, u32 cpus, u32 live}
 *   READY       {str why}  "": the api process serves; else    none
 *               why it could not start, after which it ends
 *   events: EV_EXITED {str id, u32 pid}   pid 1 of a box ended, whoever ended it
 *           EV_OOM {str id, u32 pid, str comm, u64 limit, u64 peak, u64 kills}
 *           EV_PROGRESS {u32 seq, u64 bytes, u64 files}        of an IMPORT or DEFAULT under way
 *   stats = {u64 cpu_us, u64 mem_bytes, u64 mem_peak, u64 mem_limit, u64 mem_cache,
 *            u64 oom_kills, u32 pids, u32 cpu_milli}
 */
#ifndef CAISSON_WIRE_PRIV_PROTO_H
#define CAISSON_WIRE_PRIV_PROTO_H

#include <stdint.h>

#define PRIV_PROTO_VERSION 1
#define PRIV_MSG_MAX	   (128u << 10)
#define PRIV_LIST_PAGE	   1000
#define PRIV_LAYERS_MAX	   48  /* the overlay is squashed beyond (design §4.9) */
#define PRIV_WHY_MAX	   512 /* bytes of READY's text with its NUL */
#define PRIV_LAYER_ID_LEN  65  /* sha-256 in lower-case hex with its NUL */

enum priv_verb {
	PRIV_HELLO = 1,
	PRIV_START = 2,
	PRIV_KILL = 3,
	PRIV_DELETE = 4,
	PRIV_STATS = 5,
	PRIV_LIST = 6,
	PRIV_NET = 7,
	PRIV_IMPORT = 8,
	PRIV_DEFAULT = 9,
	PRIV_LAYER_RM = 10,
	PRIV_HOST = 11,
	PRIV_READY = 12,
	PRIV_OK = 100,
	PRIV_ERR = 101,
	PRIV_EV_EXITED = 200,
	PRIV_EV_OOM = 201,
	PRIV_EV_PROGRESS = 202,
};

enum priv_list_what { PRIV_LIST_LIVE = 0, PRIV_LIST_UPPERS = 1 };

enum priv_start_flag {
	PRIV_START_NET_BLOCK = 1 << 0,	  /* no egress at all */
	PRIV_START_NO_NEW_PRIVS = 1 << 1, /* setuid programs gain nothing inside */
	PRIV_START_NEST_USERNS = 1 << 2,  /* allow user namespaces inside */
};

/* Ranges the runner enforces again. */
#define PRIV_CPU_MILLI_MIN 100
#define PRIV_CPU_MILLI_MAX 512000
#define PRIV_MEM_MIN	   (16ull << 20)
#define PRIV_MEM_MAX	   (4ull << 40)
#define PRIV_PIDS_MIN	   8
#define PRIV_PIDS_MAX	   4194304
#define PRIV_NOFILE_MIN	   64

#endif
