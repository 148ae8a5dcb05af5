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
	{"watch", "SANDBOX [PATH]", "print changes of files as they happen", opts_watch, false,
	 cmd_watch},
	{"logs", "SANDBOX [EXEC]", "show what happened to a sandbox, or what an exec said",
	 opts_logs, false, cmd_logs},
	{"ps", "SANDBOX", "list execs that run on without their caller", opts_none, false, cmd_ps},
	{"kill", "SANDBOX EXEC", "end such an exec and all of its processes", opts_kill, false,
	 cmd_kill},
	{"ports", "SANDBOX", "list the TCP ports something listens on", opts_none, false,
	 cmd_ports},
	{"session create", "SANDBOX [SESSION]", "start a shell that lives on; its id is printed",
	 opts_none, false, cmd_session_create},
	{"session list", "SANDBOX [SESSION]", "list sessions, or the commands of one", opts_none,
	 false, cmd_session_list},
	{"session exec", "SANDBOX SESSION [--] COMMAND…", "run shell text in a session",
	 opts_session_exec, true, cmd_session_exec},
	{"session logs", "SANDBOX SESSION COMMAND", "print what a command has said",
	 opts_session_logs, false, cmd_session_logs},
	{"session input", "SANDBOX SESSION COMMAND [TEXT]",
	 "send a line, or standard input, to a command", opts_none, false, cmd_session_input},
	{"session delete", "SANDBOX SESSION…", "end sessions and what runs in them", opts_none,
	 false, cmd_session_delete},
	{"git clone", "SANDBOX URL [PATH]", "clone a repository into a sandbox", opts_git_clone,
	 false, cmd_git_clone},
	{"git status", "SANDBOX", "show branch and changed files", opts_git_dir, false,
	 cmd_git_status},
	{"git add", "SANDBOX FILE…", "stage files", opts_git_dir, false, cmd_git_add},
	{"git commit", "SANDBOX", "commit what is staged; its hash is printed", opts_git_commit,
	 false, cmd_git_commit},
	{"git push", "SANDBOX", "send commits to a remote", opts_git_push, false, cmd_git_push},
	{"git pull", "SANDBOX", "get commits of a remote", opts_git_sync, false, cmd_git_pull},
	{"git branch", "SANDBOX [NAME]", "list branches, make or delete one", opts_git_branch,
	 false, cmd_git_branch},
	{"git checkout", "SANDBOX BRANCH", "go to a branch", opts_git_dir, false, cmd_git_checkout},
	{"git init", "SANDBOX [PATH]", "make a repository", opts_git_init, false, cmd_git_init},
	{"git log", "SANDBOX", "list commits", opts_git_dir, false, cmd_git_log},
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
