/*
 * plain.c - shell commands that need no shell.
 *
 * To every shell "ls -la /tmp" says: find ls and become it, with these words. A shell that starts
 * for this alone costs several times what the command does, so the child looks and execs by
 * itself, when it is certain that the shell would do the same. In doubt the shell has it:
 *
 *   text    words of a few harmless characters; in front no assignment, builtin or keyword
 *   env     no variable that a shell reads, sets or drops
 *   shell   bash, dash or busybox by the name of its file, and a program: a script in its place
 *           runs as ever
 *   file    the first of its name in PATH is a regular file that may be executed
 *
 * What can't be executed goes to the shell too, which says so in its words and with its status.
 * What the shell would add to the environment is added here.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PLAIN_TEXT_MAX 1024
#define PLAIN_WORDS    64
#define PLAIN_ENV_MAX  64
#define PLAIN_ADDS     3 /* PWD, SHLVL, _ */

static bool word_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_./:@%+,=-", c));
}

static bool listed(const char *const *list, const char *what)
{
	for (; *list; list++)
		if (strcmp(*list, what) == 0)
			return true;
	return false;
}

/* Builtins and keywords of bash and dash. busybox may take any of its own commands for one. */
static const char *const builtin[] = {
	"alias",  "bg",	     "bind",	 "break",    "builtin",	  "caller",   "case",	 "cd",
	"chdir",  "command", "compgen",	 "complete", "compopt",	  "continue", "coproc",	 "declare",
	"dirs",	  "disown",  "do",	 "done",     "echo",	  "elif",     "else",	 "enable",
	"esac",	  "eval",    "exec",	 "exit",     "export",	  "false",    "fc",	 "fg",
	"fi",	  "for",     "function", "getopts",  "hash",	  "help",     "history", "if",
	"in",	  "jobs",    "kill",	 "let",	     "local",	  "logout",   "mapfile", "popd",
	"printf", "pushd",   "pwd",	 "read",     "readarray", "readonly", "return",	 "select",
	"set",	  "shift",   "shopt",	 "source",   "suspend",	  "test",     "then",	 "time",
	"times",  "trap",    "true",	 "type",     "typeset",	  "ulimit",   "umask",	 "unalias",
	"unset",  "until",   "wait",	 "while",    ".",	  ":",	      NULL,
};

/* Variables with a meaning to some shell, and what makes it complain. */
static const char *const special[] = {
	"_",
	"CDPATH",
	"CHILD_MAX",
	"COLUMNS",
	"DIRSTACK",
	"ENV",
	"EUID",
	"EXECIGNORE",
	"EPOCHREALTIME",
	"EPOCHSECONDS",
	"FCEDIT",
	"FIGNORE",
	"FUNCNAME",
	"FUNCNEST",
	"GLOBIGNORE",
	"GROUPS",
	"HOSTNAME",
	"HOSTTYPE",
	"IFS",
	"IGNOREEOF",
	"INPUTRC",
	"INSIDE_EMACS",
	"LANG",
	"LANGUAGE",
	"LINENO",
	"LINES",
	"MACHTYPE",
	"MAIL",
	"MAILCHECK",
	"MAILPATH",
	"OLDPWD",
	"OPTARG",
	"OPTERR",
	"OPTIND",
	"OSTYPE",
	"PIPESTATUS",
	"PPID",
	"PROMPT_COMMAND",
	"PS0",
	"PS1",
	"PS2",
	"PS3",
	"PS4",
	"POSIXLY_CORRECT",
	"PWD",
	"RANDOM",
	"SECONDS",
	"SHELLOPTS",
	"SHLVL",
	"SRANDOM",
	"TIMEFORMAT",
	"TMOUT",
	"UID",
	"auto_resume",
	"histchars",
	NULL,
};
static const char *const special_front[] = {"BASH", "COMP",    "HIST",	    "LC_",
					    "LD_",  "MALLOC_", "READLINE_", "SSH"};

/* ---- on the loop: what the request says ---- */

static bool env_plain(const char *pair)
{
	char name[64];
	size_t n = strcspn(pair, "=");

	if (n == 0 || n >= sizeof(name) || (pair[0] >= '0' && pair[0] <= '9'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!word_char(pair[i]) || strchr("./:@%+,-", pair[i]))
			return false;
	for (size_t i = 0; i < ARRAY_LEN(special_front); i++)
		if (strncmp(pair, special_front[i], strlen(special_front[i])) == 0)
			return false;
	memcpy(name, pair, n);
	name[n] = '\0';
	return !listed(special, name);
}

/* A shell keeps one of two variables with the same name; which one differs. */
static bool envs_plain(const char *const *env, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(env[i], "=") + 1;

		if (!env_plain(env[i]))
			return false;
		for (size_t k = i + 1; k < n; k++)
			if (strncmp(env[i], env[k], len) == 0)
				return false;
	}
	return true;
}

/* Words of text in place; 0 when only a shell can tell them. */
static size_t text_split(char *text, const char **word)
{
	size_t n = 0;

	for (;;) {
		text += strspn(text, " \t");
		if (!*text)
			break;
		if (n == PLAIN_WORDS || !word_char(*text))
			return 0;
		word[n++] = text;
		while (word_char(*text))
			text++;
		if (*text && *text != ' ' && *text != '\t')
			return 0;
		if (*text)
			*text++ = '\0';
	}
	if (n == 0 || strpbrk(word[0], "=%") || word[0][0] == '-' || listed(builtin, word[0]))
		return 0;
	word[n] = NULL;
	return n;
}

void *plain_build(struct spawn *s, const struct agent_req *r)
{
	size_t nenv = 0, len = strlen(r->argv.v[0]) + 1, slots;
	const char **v;

	s->plain_argv = s->plain_env = NULL;
	while (s->env[nenv] && nenv <= PLAIN_ENV_MAX)
		nenv++;
	if (!(r->flags & SPAWN_SHELL) || r->argv.n != 1 || len > PLAIN_TEXT_MAX ||
	    nenv > PLAIN_ENV_MAX || !envs_plain(s->env, nenv))
		return NULL;
	slots = PLAIN_WORDS + 1 + nenv + PLAIN_ADDS + 1;
	v = malloc(slots * sizeof(*v) + len);
	if (!v)
		return NULL;
	memcpy(v + slots, r->argv.v[0], len);
	if (text_split((char *)(v + slots), v) == 0) {
		free(v);
		return NULL;
	}
	s->plain_argv = v;
	s->plain_env = v + PLAIN_WORDS + 1;
	s->plain_nenv = nenv;
	memcpy(s->plain_env, s->env, nenv * sizeof(*v));
	return v;
}

/* ---- in the child: what the sandbox holds ---- */

static const struct known {
	const char *name;
	bool names;	   /* its builtins are those listed above */
	bool sets_last;	   /* _ is the file */
	const char *level; /* what a command finds that it becomes */
} known[] = {
	{"bash", true, true, "SHLVL=0"},
	{"dash", true, false, NULL},
	{"busybox", false, false, "SHLVL=1"},
};

static bool is_program(const char *path)
{
	char magic[4];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool elf = fd >= 0 && read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0;

	if (fd >= 0)
		close(fd);
	return elf;
}

/* The shell that child_shell would start, if it is one of those known. */
static const struct known *shell_known(struct spawn *s)
{
	for (const char *const *at = child_shells; *at; at++) {
		ssize_t n = readlink(*at, s->try, sizeof(s->try) - 1);
		const char *name;

		if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
			continue;
		if (n < 0 && errno != EINVAL)
			return NULL;
		s->try[n < 0 ? 0 : n] = '\0';
		name = n < 0 ? *at : s->try;
		name = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			if (strcmp(known[i].name, name) == 0 && access(*at, X_OK) == 0 &&
			    is_program(*at))
				return &known[i];
		return NULL;
	}
	return NULL;
}

/* The file of a bare name, where no shell could choose another one. */
static bool name_find(struct spawn *s, const char *name)
{
	size_t len = strlen(name);
	struct stat st;

	for (const char *dir = s->path_env;; dir++) {
		size_t n = strcspn(dir, ":");

		if (*dir != '/' || n + len + 2 > sizeof(s->try))
			return false;
		memcpy(s->try, dir, n);
		s->try[n] = '/';
		memcpy(s->try + n + 1, name, len + 1);
		if (stat(s->try, &st) == 0)
			return S_ISREG(st.st_mode) && access(s->try, X_OK) == 0;
		if (errno != ENOENT && errno != ENOTDIR)
			return false;
		dir += n;
		if (!*dir)
			return false;
	}
}

void plain_exec(struct spawn *s)
{
	const char *name = s->plain_argv[0];
	const struct known *shell = shell_known(s);
	size_t n = s->plain_nenv, len = strlen(name);
	bool bare = !strchr(name, '/');

	if (!shell || (bare && (!shell->names || !name_find(s, name))))
		return;
	if (!bare && len >= sizeof(s->try))
		return;
	if (!bare)
		memcpy(s->try, name, len + 1);
	/* These two stand right before the texts that they name. */
	memcpy(s->pwd_key, "PWD=", sizeof(s->pwd_key));
	memcpy(s->try_key, "_=", sizeof(s->try_key));
	s->plain_env[n++] = s->pwd_key;
	if (shell->level)
		s->plain_env[n++] = shell->level;
	if (shell->sets_last)
		s->plain_env[n++] = s->try_key;
	s->plain_env[n] = NULL;
	execve(s->try, (char *const *)(uintptr_t)s->plain_argv,
	       (char *const *)(uintptr_t)s->plain_env);
}
