/*
 * task_int.h - what task.c and task_reader.c share; private to src/agent.
 */
#ifndef CAISSON_AGENT_TASK_INT_H
#define CAISSON_AGENT_TASK_INT_H

#include "agent/call.h"
#include "caisson/task.h"
#include "wire/task_msg.h"

/* One record out of a reply; end *ret with task_info_done. */
int agent_task_info(struct wire_in *in, struct task_info *ret, struct err *err);

/* A reader of what comes on sock, which it takes over; NULL leaves it the caller's. */
struct task_reader *task_reader_on(int sock, uint32_t streams, uint64_t out_from, uint64_t err_from,
				   struct err *err);

#endif
