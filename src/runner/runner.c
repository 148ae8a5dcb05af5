/*
 * runner.c - what every runner shares.
 */
#include "caisson/runner.h"

void runner_list_done(struct runner_list *l)
{
	free(l->live);
	free(l->upper);
	*l = (struct runner_list){0};
}
