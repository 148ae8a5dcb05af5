/*
 * task_op.h - what a connection waits for at a task; private to task_*.c.
 */
#ifndef CAISSON_INIT_TASK_OP_H
#define CAISSON_INIT_TASK_OP_H

#include "init/task.h"

enum task_op_kind { OP_READ, OP_WRITE, OP_KILL, OP_REMOVE, OP_LIST };

struct task_op {
	enum task_op_kind kind;
	struct task *t; /* NULL: OP_LIST */
	struct conn *c;
	struct task_op *next; /* of the writes of a task */
	union {
		struct {
			uint64_t at[2];
			uint64_t to[2]; /* ends there; while a task that is followed runs: open */
			uint32_t streams;
			bool follow;
		} read;
		struct {
			uint8_t *p;
			size_t n, pos, held;
			bool eof;
		} write;
		struct {
			uint64_t seq; /* the last one sent */
			uint32_t kind;
			char parent[TASK_ID_MAX + 1];
		} list;
	};
};

/* The conn waits from now on. NULL: out of memory, told to the peer. */
struct task_op *task_op_new(struct init *in, struct conn *c, enum task_op_kind kind,
			    struct task *t);
/* The last reply of an operation: the task's record, or nothing. */
void task_op_done(struct init *in, struct conn *c, const struct task *t);
void task_op_fail(struct init *in, struct conn *c, const struct err *err);

/* task_read.c */
void task_read_run(struct init *in, struct conn *c, const struct agent_req *r, struct task *t);
void task_read_pump(struct init *in, struct conn *c);
void task_list_run(struct init *in, struct conn *c, const struct agent_req *r);
void task_list_pump(struct init *in, struct conn *c);

/* task_write.c */
void task_write_run(struct init *in, struct conn *c, const struct agent_req *r, struct task *t);
void task_write_forget(struct task_op *op);

#endif
