/*
 * interp_int.h - what the files about the interpreter share.
 */
#ifndef CAISSON_CORE_INTERP_INT_H
#define CAISSON_CORE_INTERP_INT_H

#include "caisson/interp.h"
#include "core/interp_link.h"
#include "core/proc.h"

#define INTERP_DEFAULT	"default" /* the id of the hidden context */
#define INTERP_TEXT_MAX 300

bool interp_is_default(const char *context);
/* Start a runner under p's id (was as of store_process_put) and wait until it answers on l. On
 * failure nothing of it is left. */
int interp_start(struct process_at *at, struct process_row *p, const char *was,
		 struct interp_link *l, struct task_info *ret, struct err *err);
/* Attach to the runner of at's row; what is no longer alive is ERR_GONE and says why. */
int interp_attach(struct process_at *at, struct interp_link *l, turn_gone_fn gone, void *arg,
		  struct err *err);
/* A task that has ended, in words. */
void interp_death(struct process_at *at, const struct task_info *t, char out[INTERP_TEXT_MAX]);
/* The tree is killed, the record forgotten. */
void interp_drop(struct process_at *at, const char *task);

#endif
