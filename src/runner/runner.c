/*
 * runner.c - what all runners share.
 */
#include "caisson/runner.h"

#include <stdlib.h>
#include <string.h>

void runner_list_done(struct runner_list *l)
{
	free(l->live);
	free(l->upper);
	memset(l, 0, sizeof(*l));
}
