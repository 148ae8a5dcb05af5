/*
 * taskbox.h - short forms of task calls for tests; every one asserts that it worked.
 */
#ifndef CAISSON_TESTS_TASKBOX_H
#define CAISSON_TESTS_TASKBOX_H

#include "base/buf.h"
#include "caisson/task.h"
#include "unit/agentbox.h"

#define TASKBOX_MS 20000 /* no wait of a test is longer */

struct taskbox_log {
	struct buf out, err, all; /* all: both in the order they came */
	uint64_t lost[2];	  /* told as gaps */
	size_t gaps;
	struct task_info end; /* of a read to the end */
};

/* Shell text as a task of a kind that is no session. */
void taskbox_start(const struct agentbox *b, const char *id, enum task_kind kind, uint32_t tflags,
		   const char *text);
/* The same as the daemon asks it, without asserting. */
int taskbox_try(const struct agentbox *b, const char *id, enum task_kind kind, uint32_t tflags,
		const char *text, struct task_info *ret, bool *existed, struct err *err);
/* Follow from the offsets to the end of the task. */
void taskbox_follow(const struct agentbox *b, const char *id, uint64_t out_from, uint64_t err_from,
		    struct taskbox_log *ret);
/* What is there now. */
void taskbox_read(const struct agentbox *b, const char *id, struct taskbox_log *ret);
void taskbox_log_done(struct taskbox_log *l);
#define auto_tasklog auto_call(taskbox_log_done)

void taskbox_wait(const struct agentbox *b, const char *id, struct task_info *ret); /* its end */
void taskbox_get(const struct agentbox *b, const char *id, struct task_info *ret);
void taskbox_remove(const struct agentbox *b, const char *id);
void taskbox_write(const struct agentbox *b, const char *id, const char *text, bool eof);
/* Wait until the output holds text. */
void taskbox_expect(const struct agentbox *b, const char *id, const char *text);

/* Put a shell of this machine into the box, with its libraries, as path. False: there is none. */
bool taskbox_shell(const struct agentbox *b, const char *shell, const char *path);
void taskbox_session(const struct agentbox *b, const char *id, const char *user);
/* A command of a session, to its end. The result's all is what it wrote. */
void taskbox_exec(const struct agentbox *b, const char *session, const char *text,
		  struct taskbox_log *ret);
/* The same; asserts status and output. */
void taskbox_says(const struct agentbox *b, const char *session, const char *text, uint32_t code,
		  const char *out);
/* Nothing but init, soon. */
void taskbox_empty(const struct agentbox *b);
long taskbox_rss_kib(const struct agentbox *b);
size_t taskbox_fds(const struct agentbox *b);
/* No more than n soon: connections that ended are closed a moment later. */
void taskbox_fds_at_most(const struct agentbox *b, size_t n);

#endif
