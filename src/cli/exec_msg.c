/*
 * exec_msg.c - writing and reading the messages of an exec connection.
 */
#include "cli/exec_msg.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rest.h"
#include "cli/table.h"

static const struct {
	int sig;
	const char *name;
} signals[] = {
	{SIGINT, "SIGINT"},   {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"},
	{SIGQUIT, "SIGQUIT"}, {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},
};

/* Arguments joined by blanks, as ssh does. */
static json_t *shell_text(char **argv)
{
	auto_buf struct buf b = BUF_INIT(1u << 20);
	struct err err = {0};
	for (size_t i = 0; argv[i]; i++)
		if ((i && buf_adds(&b, " ", &err) < 0) || buf_adds(&b, argv[i], &err) < 0)
			return NULL;
	return json_string(buf_str(&b));
}

static int put(json_t *o, const char *key, json_t *value)
{
	return value ? json_object_set_new(o, key, value) : -1;
}

static json_t *array_of(char **argv)
{
	json_t *a = json_array();
	for (size_t i = 0; a && argv[i]; i++) {
		if (json_array_append_new(a, json_string(argv[i])) < 0) {
			json_decref(a);
			return NULL;
		}
	}
	return a;
}

json_t *exec_msg_request(const struct exec_args *a, char **argv)
{
	auto_json json_t *o = json_object();
	int rc = a->shell ? put(o, "command", shell_text(argv)) : put(o, "argv", array_of(argv));
	if (a->cwd)
		rc |= put(o, "cwd", json_string(a->cwd));
	if (a->user)
		rc |= put(o, "user", json_string(a->user));
	if (a->env.n)
		rc |= put(o, "env", json_object());
	for (size_t i = 0; rc == 0 && i < a->env.n; i++)
		rc |= put(json_object_get(o, "env"), a->env.pair[i].key,
			  json_string(a->env.pair[i].value));
	if (a->timeout_ms != OPT_UNSET && a->timeout_ms > 0)
		rc |= put(o, "timeoutMs", json_integer(a->timeout_ms));
	return rc == 0 ? TAKE_PTR(o) : NULL;
}

char *exec_msg_start(const struct exec_args *a, char **argv, int cols, int rows)
{
	auto_json json_t *o = exec_msg_request(a, argv);
	int rc = o ? put(o, "stdin", json_boolean(!a->no_stdin)) : -1;
	if (rc < 0)
		return NULL;
	if (a->tty) {
		rc |= put(o, "tty", json_true());
		rc |= put(o, "cols", json_integer(cols));
		rc |= put(o, "rows", json_integer(rows));
	}
	return rc == 0 ? json_dumps(o, JSON_COMPACT) : NULL;
}

char *exec_msg_signal(int sig)
{
	for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
		if (signals[i].sig != sig)
			continue;
		auto_json json_t *o =
			json_pack("{s:s, s:s}", "type", "signal", "signal", signals[i].name);
		return o ? json_dumps(o, JSON_COMPACT) : NULL;
	}
	return NULL;
}

char *exec_msg_resize(int cols, int rows)
{
	auto_json json_t *o =
		json_pack("{s:s, s:i, s:i}", "type", "resize", "cols", cols, "rows", rows);
	return o ? json_dumps(o, JSON_COMPACT) : NULL;
}

static int read_exit(const json_t *o, struct exec_end *ret)
{
	*ret = (struct exec_end){.code = (int)json_number(o, "exitCode")};
	snprintf(ret->cause, sizeof(ret->cause), "%s", json_text(o, "cause"));
	snprintf(ret->note, sizeof(ret->note), "%s", json_text(o, "message"));
	if (!strcmp(ret->cause, "timeout")) {
		ret->code = CLI_TIMEOUT;
		if (!*ret->note)
			snprintf(ret->note, sizeof(ret->note), "the time limit ended the program");
	}
	if (!strcmp(ret->cause, "oom") && !*ret->note)
		snprintf(ret->note, sizeof(ret->note), "the sandbox ran out of memory");
	/* A shell would cut the code the same way; 0 must stay the word for success alone. */
	if (ret->code < 0 || ret->code > 255)
		ret->code = CLI_FAILED;
	return 1;
}

int exec_msg_read(const char *text, size_t n, struct exec_end *ret, struct err *err)
{
	auto_json json_t *o = json_loadb(text, n, 0, NULL);
	if (json_is_integer(json_object_get(o, "exitCode")))
		return read_exit(o, ret);
	const json_t *e = json_object_get(o, "error");
	if (!e && !strcmp(json_text(o, "type"), "error"))
		e = o;
	if (!e)
		return 0;
	int64_t status = json_number(e, "statusCode");
	ret->code = status == 404 ? CLI_NO_PROGRAM : status == 403 ? CLI_NOT_RUNNABLE : CLI_OWN;
	const char *why = json_is_string(e) ? json_string_value(e) : json_text(e, "message");
	return err_set(err, ERR_INVALID, "%s", *why ? why : "the program could not be run");
}
