/*
 * config.h - every setting of the daemon, from one table.
 *
 * Later sources win: built-in default, configuration file, environment (CAISSON_<NAME>), flag
 * (--<name>). Unknown names and values out of range are errors naming the setting and the rule.
 * docs/configuration.md is printed from the same table (--print-config-docs).
 */
#ifndef CAISSON_MAIN_CONFIG_H
#define CAISSON_MAIN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct config {
	char *listen, *data_dir, *run_dir, *cache_dir, *default_image, *public_url;
	char *on_exit, *tls_cert, *tls_key, *log_format, *log_level, *region;
	char *uplink_netns, *resolvers, *net_allow_ranges, *trusted_proxies;
	char *api_user, *admin_key, *init_path;
	int64_t warm_pool, net_pool, upper_pool, disk_low, stop_grace_ms, hold_ms;
	int64_t max_cpu, max_memory, max_disk, max_sandboxes, output_max, max_connections,
		max_per_address;
	bool no_privsep;
	/* What the command line asked for beside settings. */
	bool print_config, print_docs, version, help;
	char *config_file;
};

/* Fill from defaults, file, environment and argv (argv[0] skipped). */
int config_load(struct config *c, int argc, char **argv, struct err *err);
void config_done(struct config *c);
/* Effective values, one "name = value" a line; the admin key is masked. */
void config_print(const struct config *c, FILE *out);
void config_print_docs(FILE *out);
void config_print_help(FILE *out);

#endif
