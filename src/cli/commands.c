/*
 * commands.c - the table of sub-commands, and what is made of it: help and version.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

const struct opt opts_none[] = {{.kind = OPT_END}};

const struct cmd cli_commands[] = {
	{"create", "[OPTIONS]", "create a sandbox and start it", opts_create, false, cmd_create},
	{"list", "[OPTIONS]", "list sandboxes", opts_list, false, cmd_list},
	{"get", "SANDBOX", "show one sandbox, by id or name", opts_none, false, cmd_get},
	{"start", "SANDBOX…", "start stopped sandboxes", opts_wait, false, cmd_start},
	{"stop", "SANDBOX…", "stop sandboxes; their files stay", opts_stop, false, cmd_stop},
	{"delete", "SANDBOX…", "delete sandboxes and their files", opts_delete, false, cmd_delete},
	{"exec", "SANDBOX [--] PROGRAM [ARG…]", "run a program in a sandbox", opts_exec, true,
	 cmd_exec},
	{"run", "[--] PROGRAM [ARG…]", "create a sandbox, run a program in it, delete it", opts_run,
	 true, cmd_run},
	{"cp", "SOURCE DEST", "copy files; one side is SANDBOX:PATH", opts_cp, false, cmd_cp},
	{"logs", "SANDBOX", "show what happened to a sandbox, and why", opts_none, false, cmd_logs},
	{"image import", "NAME TARBALL|DIR", "make an image of a root file system", opts_none,
	 false, cmd_image_import},
	{"image list", "", "list images", opts_none, false, cmd_image_list},
	{"image delete", "NAME…", "delete images", opts_none, false, cmd_image_delete},
	{"key create", "NAME", "make an API key; it is shown once", opts_key_create, false,
	 cmd_key_create},
	{"key list", "", "list API keys", opts_none, false, cmd_key_list},
	{"key delete", "NAME…", "delete API keys", opts_none, false, cmd_key_delete},
	{"version", "", "show the version", opts_none, false, cmd_version},
	{"completion", "bash|zsh", "print the completion script of a shell", opts_none, false,
	 cmd_completion},
	{"help", "[COMMAND]", "show help", opts_none, false, cmd_help},
};
const size_t cli_ncommands = ARRAY_LEN(cli_commands);

int cmd_version(struct cli *c, int argc, char **argv, struct err *err)
{
	if (opt_parse(c, argc, argv, NULL, err) < 0)
		return CLI_USAGE;
	if (c->help)
		return CLI_OK;
	if (c->json)
		printf("{\"version\": \"%s\"}\n", CAISSON_VERSION);
	else
		printf("caisson %s\n", CAISSON_VERSION);
	return CLI_OK;
}

int help_print(int argc, char **argv)
{
	char name[128];
	int found = 0;
	snprintf(name, sizeof(name), "%s%s%s", argv[0], argc > 1 ? " " : "",
		 argc > 1 ? argv[1] : "");
	for (size_t i = 0; i < cli_ncommands; i++) {
		const char *n = cli_commands[i].name;
		size_t len = strlen(name);
		if (strncmp(n, name, len) || (n[len] && n[len] != ' '))
			continue;
		if (found++)
			fputc('\n', stdout);
		opt_help(stdout, &cli_commands[i]);
	}
	return found;
}

int cmd_help(struct cli *c, int argc, char **argv, struct err *err)
{
	int left = c->cmd ? opt_parse(c, argc, argv, NULL, err) : 0;
	if (left < 0)
		return CLI_USAGE;
	if (left && help_print(left, argv))
		return CLI_OK;
	if (left) {
		err_set(err, ERR_INVALID, "no command %s", argv[0]);
		return CLI_USAGE;
	}
	puts("caisson: a Linux computer for every agent\n\nCommands:");
	for (size_t i = 0; i < cli_ncommands; i++)
		printf("  %-14s %s\n", cli_commands[i].name, cli_commands[i].help);
	puts("\nEnvironment: CAISSON_URL (else DAYTONA_API_URL), CAISSON_API_KEY (else "
	     "DAYTONA_API_KEY)\n"
	     "caisson help COMMAND shows its options.");
	return CLI_OK;
}
