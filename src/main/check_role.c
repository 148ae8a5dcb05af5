/*
 * check_role.c - `caissond check`.
 */
#include <unistd.h>

#include "main/roles.h"

void role_doctor_config(const struct config *c, struct doctor_config *ret)
{
	*ret = (struct doctor_config){
		.data_dir = c->data_dir,
		.run_dir = c->run_dir,
		.cache_dir = c->cache_dir,
		.default_image = c->default_image,
		.uplink_netns = c->uplink_netns,
		.disk_low = (uint64_t)c->disk_low,
	};
}

int role_check(struct config *c)
{
	struct doctor_config dc;

	if (geteuid() != 0) {
		fprintf(stderr, "caissond: check needs root to try what the daemon will do\n");
		return 1;
	}
	role_doctor_config(c, &dc);
	return doctor_run(&dc, stdout);
}
