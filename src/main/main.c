/*
 * main.c - caissond: which role this process plays.
 *
 *   caissond [flags]        the daemon: becomes the runner (root) and starts the other roles
 *   caissond check [flags]  the doctor
 *   caissond api [flags]    started by the daemon only, with descriptors 3 and 4
 *   caissond net [flags]    the same, with the descriptors of caisson/netrole.h
 */
#include <string.h>

#include "base/log.h"
#include "main/config_check.h"
#include "main/roles.h"

static void main_log(const struct config *c, const char *process)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};
	enum log_level min = LOG_INFO;

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(c->log_level, names[i]) == 0)
			min = (enum log_level)i;
	log_setup(process, min, strcmp(c->log_format, "json") == 0);
}

static int main_actions(struct config *c)
{
	if (c->help)
		config_print_help(stdout);
	else if (c->version)
		printf("caissond %s\n", CAISSON_VERSION);
	else if (c->print_docs)
		config_print_docs(stdout);
	else if (c->print_config)
		config_print(c, stdout);
	else
		return -1;
	return 0;
}

/* A role started by the daemon gets what was checked there, without the first key. */
static bool main_checks(const struct config *c, const char *role)
{
	return !c->help && !c->version && !c->print_docs && strcmp(role, "api") != 0 &&
	       strcmp(role, "net") != 0;
}

int main(int argc, char **argv)
{
	const char *role = argc > 1 && argv[1][0] != '-' ? argv[1] : "";
	int skip = *role ? 1 : 0;
	struct config c;
	struct err err = {0};
	int rc;

	if (config_load(&c, argc - skip, argv + skip, &err) < 0 ||
	    (main_checks(&c, role) && config_check(&c, &err) < 0)) {
		fprintf(stderr, "caissond: %s\n", err.msg);
		return 2;
	}
	if (main_actions(&c) == 0) {
		config_done(&c);
		return 0;
	}
	main_log(&c, *role ? role : c.no_privsep ? "caissond" : "runner");
	if (strcmp(role, "check") == 0) {
		rc = role_check(&c);
	} else if (strcmp(role, "api") == 0) {
		rc = role_api(&c);
	} else if (strcmp(role, "net") == 0) {
		rc = role_net(&c);
	} else if (!*role) {
		rc = role_daemon(&c, argc, argv);
	} else {
		fprintf(stderr, "caissond: unknown command \"%s\" (see --help)\n", role);
		rc = 2;
	}
	config_done(&c);
	return rc;
}
