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

#endif
