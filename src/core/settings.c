/*
 * settings.c - what the core was opened with, for dialects that show some of it.
 */
#include "core/int.h"

const struct core_config *core_settings(const struct core *c)
{
	return &c->cfg;
}
