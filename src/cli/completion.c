/*
 * completion.c - completion scripts, written from the command and option tables. Names of
 * sandboxes are asked of the daemon while the user types.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/opt.h"

static void print_options(const struct opt *o)
{
	for (; o->kind != OPT_END; o++)
		printf("--%s ", o->name);
}

/* First words of all commands, each once: they stand together in the table. */
static void print_first_words(void)
{
	const char *last = "";
	for (size_t i = 0; i < cli_ncommands; i++) {
		const char *n = cli_commands[i].name;
		size_t len = strcspn(n, " ");
		if (strncmp(n, last, len) || last[len] != ' ')
			printf("%.*s ", (int)len, n);
		last = n;
	}
}

static void print_second_words(void)
{
	for (size_t i = 0; i < cli_ncommands; i++) {
		const char *n = cli_commands[i].name, *space = strchr(n, ' ');
		if (!space)
			continue;
		size_t len = (size_t)(space - n);
		bool first = i == 0 || strncmp(cli_commands[i - 1].name, n, len + 1) != 0;
		bool last = i + 1 == cli_ncommands ||
			    strncmp(cli_commands[i + 1].name, n, len + 1) != 0;
		if (first)
			printf("\t%.*s) words=\"", (int)len, n);
		printf("%s%s", space + 1, last ? "\" ;;\n" : " ");
	}
}

static void print_cases(void)
{
	for (size_t i = 0; i < cli_ncommands; i++) {
		const struct cmd *m = &cli_commands[i];
		printf("\t\"%s\") options=\"", m->name);
		print_options(m->opts);
		puts("\" ;;");
	}
}

/* Commands whose first argument is a sandbox; cp has it on either side. */
static void print_takers(void)
{
	const char *between = "";
	for (size_t i = 0; i < cli_ncommands; i++) {
		const struct cmd *m = &cli_commands[i];
		if (strncmp(m->args, "SANDBOX", 7) && strcmp(m->name, "cp"))
			continue;
		printf("%s\"%s\"", between, m->name);
		between = " | ";
	}
}

static void print_bash(void)
{
	puts("# bash completion of caisson: source <(caisson completion bash)\n"
	     "_caisson() {\n"
	     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} cmd=${COMP_WORDS[1]} words= options=\n"
	     "\tlocal IFS=$' \\t\\n'\n"
	     "\tCOMPREPLY=()\n"
	     "\tif [ \"$COMP_CWORD\" = 1 ]; then");
	printf("\t\twords=\"");
	print_first_words();
	puts("\"\n\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
	     "\tcase $cmd in");
	print_second_words();
	puts("\tesac\n\tif [ -n \"$words\" ] && [ \"$COMP_CWORD\" = 2 ]; then\n"
	     "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n\t\treturn\n\tfi\n"
	     "\t[ -n \"$words\" ] && cmd=\"$cmd ${COMP_WORDS[2]}\"\n"
	     "\tcase $cmd in");
	print_cases();
	printf("\tesac\n\tcase $cur in\n\t-*) COMPREPLY=($(compgen -W \"$options");
	print_options(opt_global);
	puts("\" -- \"$cur\")); return ;;\n\tesac\n"
	     "\tcase $cmd in");
	putchar('\t');
	print_takers();
	puts(")\n"
	     "\t\twords=$(caisson list --quiet --names 2> /dev/null)\n"
	     "\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
	     "\tesac\n"
	     "\t[ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$cur\"))\n"
	     "}\n"
	     "complete -F _caisson caisson");
}

static int print_zsh(void)
{
	puts("#compdef caisson\n# zsh completion: source <(caisson completion zsh)\n"
	     "autoload -U +X bashcompinit && bashcompinit");
	print_bash();
	return CLI_OK;
}

int cmd_completion(struct cli *c, int argc, char **argv, struct err *err)
{
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0)
		return CLI_USAGE;
	if (c->help)
		return CLI_OK;
	if (left == 1 && !strcmp(argv[0], "zsh"))
		return print_zsh();
	if (left != 1 || strcmp(argv[0], "bash")) {
		err_set(err, ERR_INVALID, "say bash or zsh");
		return CLI_USAGE;
	}
	print_bash();
	return CLI_OK;
}
