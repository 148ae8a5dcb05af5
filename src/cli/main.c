/*
 * main.c - `caisson`: find the sub-command, run it, print one line when it fails.
 */
#include <curl/curl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/settings.h"
#include "cli/table.h"

/* Global options may stand before the command; they are moved behind it. */
static int skip_globals(int argc, char **argv)
{
	int i = 1;
	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		i += opt_takes_value(argv[i]) ? 2 : 1;
	}
	return MIN(i, argc);
}

static bool is_help(const char *word)
{
	return word && (!strcmp(word, "--help") || !strcmp(word, "-h"));
}

static size_t words(const char *name)
{
	return strchr(name, ' ') ? 2 : 1;
}

static const struct cmd *find(int argc, char **argv, int at)
{
	char two[128] = "";
	if (at + 1 < argc)
		snprintf(two, sizeof(two), "%s %s", argv[at], argv[at + 1]);
	for (size_t i = 0; i < cli_ncommands; i++) {
		const char *name = cli_commands[i].name;
		if (!strcmp(name, words(name) == 2 ? two : argv[at]))
			return &cli_commands[i];
	}
	return NULL;
}

/* "image" alone, or "image imprt": say what there is. */
static int unknown(const char *word)
{
	char list[512] = "";
	size_t n = strlen(word);
	for (size_t i = 0; i < cli_ncommands; i++) {
		const char *name = cli_commands[i].name;
		size_t used = strlen(list);
		if (!strncmp(name, word, n) && name[n] == ' ')
			snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", name);
	}
	fputs("caisson: ", stderr);
	if (*list) {
		fprintf(stderr, "say one of: %s\n", list);
	} else {
		fputs("no command ", stderr);
		text_print(stderr, word);
		fputs(" (see caisson help)\n", stderr);
	}
	return CLI_USAGE;
}

static void print_error(const struct cmd *cmd, const struct err *err)
{
	fprintf(stderr, "caisson: %s: ", cmd->name);
	text_print(stderr, err->msg[0] ? err->msg : "failed");
	fputc('\n', stderr);
}

static int run(struct cli *c, int argc, char **argv, int at)
{
	/* argv becomes: options that stood before the command, then what follows it. */
	int skip = at + (int)words(c->cmd->name), n = 0;
	struct err err = {0};
	auto_free char **rest = calloc((size_t)argc + 1, sizeof(*rest));
	if (!rest)
		return CLI_FAILED;
	for (int i = 1; i < argc; i++)
		if (i < at || i >= skip)
			rest[n++] = argv[i];
	int code = settings_load(c, &err) < 0 ? CLI_FAILED : c->cmd->run(c, n, rest, &err);
	if (fflush(stdout) != 0 && code == CLI_OK)
		code = CLI_FAILED;
	if (err.code != ERR_NONE && !c->help)
		print_error(c->cmd, &err);
	return code;
}

int main(int argc, char **argv)
{
	struct cli c = {0};
	signal(SIGPIPE, SIG_IGN);
	setlocale(LC_CTYPE, "C.UTF-8");
	int at = skip_globals(argc, argv);
	for (int i = 1; i < at; i++)
		if (!strcmp(argv[i], "--version"))
			argv[at = i] = "version";
	if (at == argc) {
		bool asked = argc > 1 && is_help(argv[1]);
		cmd_help(&c, 0, NULL, NULL);
		return asked ? CLI_OK : CLI_USAGE;
	}
	c.cmd = find(argc, argv, at);
	if (!c.cmd && is_help(argv[at + 1]) && help_print(1, argv + at))
		return CLI_OK;
	if (!c.cmd)
		return unknown(argv[at]);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	int code = run(&c, argc, argv, at);
	rest_done(&c);
	settings_done(&c);
	curl_global_cleanup();
	return code;
}
