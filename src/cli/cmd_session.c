/*
 * cmd_session.c - `caisson session …`: shells that live on in a sandbox, and their commands.
 *
 * Hanging up leaves a command running; its log stays until the session is deleted.
 */
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "cli/log_stream.h"
#include "cli/opt.h"
#include "cli/table.h"
#include "cli/toolbox.h"

#define INPUT_MAX (256u << 10) /* bytes of one call with input */

struct args {
	bool detach, follow;
	int64_t timeout_ms;
};

const struct opt opts_session_exec[] = {
	{'d', "detach", NULL, "do not wait; the id of the command is printed", OPT_FLAG,
	 offsetof(struct args, detach)},
	{'f', "follow", NULL, "print as it comes; input stays open for session input", OPT_FLAG,
	 offsetof(struct args, follow)},
	{0, "timeout", "TIME", "kill it after so long", OPT_SECS,
	 offsetof(struct args, timeout_ms)},
	{.kind = OPT_END},
};
const struct opt opts_session_logs[] = {
	{'f', "follow", NULL, "go on until the command has ended", OPT_FLAG,
	 offsetof(struct args, follow)},
	{.kind = OPT_END},
};

/* Options, then a toolbox. 1: go on with *argc arguments behind the sandbox; else *ret is the code.
 */
static int begin(struct cli *c, int *argc, char **argv, int least, int most, struct args *a,
		 struct toolbox *t, int *ret, struct err *err)
{
	int left = opt_parse(c, *argc, argv, a, err);
	*ret = left >= 0 && c->help ? CLI_OK : CLI_USAGE;
	if (left < 0 || c->help)
		return 0;
	if (left < 1 + least || left > 1 + most) {
		err_set(err, ERR_INVALID, "takes %s", c->cmd->args);
		return 0;
	}
	*argc = left - 1;
	*ret = CLI_FAILED;
	return toolbox_open(t, c, argv[0], err) == 0;
}

int cmd_session_create(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	struct args a = {0};
	char made[40] = "session-";
	int code;
	if (!begin(c, &argc, argv, 0, 1, &a, &t, &code, err))
		return code;
	id_hex(made + 8, 8);
	const char *id = argc ? argv[1] : made;
	toolbox_begin(&t, "/process/session");
	toolbox_text(&t, "sessionId", id);
	if (toolbox_call(&t, "POST", NULL, err) < 0)
		return CLI_FAILED;
	if (c->json) {
		auto_json json_t *o = json_pack("{s:s}", "sessionId", id);
		return json_print(o);
	}
	text_print(stdout, id);
	putchar('\n');
	return CLI_OK;
}

static void print_sessions(const json_t *list)
{
	static const char *const head[] = {"SESSION", "COMMANDS", "RUNNING", NULL};
	auto_table struct table t = table_on(head);
	json_t *it, *cmd;
	size_t i, j;
	json_array_foreach(list, i, it)
	{
		char cell[TEXT_SHORT];
		size_t running = 0;
		json_t *cmds = json_object_get(it, "commands");
		json_array_foreach(cmds, j, cmd) running +=
			!json_is_integer(json_object_get(cmd, "exitCode"));
		table_add(&t, json_text(it, "sessionId"));
		snprintf(cell, sizeof(cell), "%zu", json_array_size(cmds));
		table_add(&t, cell);
		snprintf(cell, sizeof(cell), "%zu", running);
		table_add(&t, cell);
	}
	table_print(&t, stdout);
}

static void print_commands(const json_t *session)
{
	static const char *const head[] = {"ID", "EXIT", "COMMAND", NULL};
	auto_table struct table t = table_on(head);
	json_t *it;
	size_t i;
	json_array_foreach(json_object_get(session, "commands"), i, it)
	{
		char cell[TEXT_SHORT] = "";
		const json_t *code = json_object_get(it, "exitCode");
		if (json_is_integer(code))
			snprintf(cell, sizeof(cell), "%lld", (long long)json_integer_value(code));
		table_add(&t, json_text(it, "id"));
		table_add(&t, cell);
		table_add(&t, json_text(it, "command"));
	}
	table_print(&t, stdout);
}

int cmd_session_list(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	auto_json json_t *reply = NULL;
	struct args a = {0};
	int code;
	if (!begin(c, &argc, argv, 0, 1, &a, &t, &code, err))
		return code;
	toolbox_begin(&t, "/process/session");
	if (argc)
		toolbox_segment(&t, argv[1], "");
	if (toolbox_call(&t, "GET", &reply, err) < 0)
		return CLI_FAILED;
	if (c->json)
		return json_print(reply);
	if (argc)
		print_commands(reply);
	else
		print_sessions(reply);
	return CLI_OK;
}

/* Path of a command: /process/session/S/command/C + suffix. */
static void begin_command(struct toolbox *t, const char *session, const char *id,
			  const char *suffix)
{
	toolbox_begin(t, "/process/session");
	toolbox_segment(t, session, "/command");
	toolbox_segment(t, id, suffix);
}

static int exit_code_of(struct toolbox *t, const char *session, const char *id, struct err *err)
{
	auto_json json_t *reply = NULL;
	begin_command(t, session, id, "");
	if (toolbox_call(t, "GET", &reply, err) < 0)
		return CLI_OWN;
	const json_t *code = json_object_get(reply, "exitCode");
	if (!json_is_integer(code)) {
		err_set(err, ERR_UNAVAILABLE, "the log ended, but not the command");
		return CLI_OWN;
	}
	return (int)(json_integer_value(code) & 255);
}

static int print_result(struct toolbox *t, const json_t *reply)
{
	const json_t *out = json_object_get(reply, "stdout"), *e = json_object_get(reply, "stderr");
	if (t->c->json)
		return json_print(reply);
	fwrite(json_string_value(out), 1, json_string_length(out), stdout);
	fflush(stdout);
	fwrite(json_string_value(e), 1, json_string_length(e), stderr);
	return (int)(json_number(reply, "exitCode") & 255);
}

static int follow_command(struct toolbox *t, const char *session, const json_t *reply,
			  struct err *err)
{
	const char *id = json_text(reply, "cmdId");
	begin_command(t, session, id, "/logs");
	int rc = log_stream_print(t->c, buf_str(&t->url), true, err);
	if (rc != 0)
		return rc < 0 ? CLI_OWN : 128 + 13; /* SIGPIPE */
	return exit_code_of(t, session, id, err);
}

/* Words joined by blanks, as ssh does. */
static int join(char **words, int n, struct buf *text, struct err *err)
{
	for (int i = 0; i < n; i++)
		if ((i && buf_adds(text, " ", err) < 0) || buf_adds(text, words[i], err) < 0)
			return -1;
	return 0;
}

int cmd_session_exec(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	auto_buf struct buf text = BUF_INIT(1u << 20);
	auto_json json_t *reply = NULL;
	struct args a = {.timeout_ms = OPT_UNSET};
	int code;
	if (!begin(c, &argc, argv, 2, INT16_MAX, &a, &t, &code, err))
		return code == CLI_FAILED ? CLI_OWN : code;
	int at = argc > 2 && !strcmp(argv[2], "--") ? 3 : 2;
	if (join(argv + at, argc + 1 - at, &text, err) < 0)
		return CLI_OWN;
	toolbox_begin(&t, "/process/session");
	toolbox_segment(&t, argv[1], "/exec");
	toolbox_text(&t, "command", buf_str(&text));
	toolbox_flag(&t, "runAsync", a.detach || a.follow);
	if (a.timeout_ms != OPT_UNSET)
		toolbox_int(&t, "timeout", (a.timeout_ms + 999) / 1000);
	t.patience_s = 0;
	if (toolbox_call(&t, "POST", &reply, err) < 0)
		return err->code == ERR_TIMEOUT ? CLI_TIMEOUT : CLI_OWN;
	if (a.follow && !a.detach)
		return follow_command(&t, argv[1], reply, err);
	if (!a.detach)
		return print_result(&t, reply);
	if (c->json)
		return json_print(reply);
	text_print(stdout, json_text(reply, "cmdId"));
	putchar('\n');
	return CLI_OK;
}

int cmd_session_logs(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	struct args a = {0};
	int code;
	if (!begin(c, &argc, argv, 2, 2, &a, &t, &code, err))
		return code;
	begin_command(&t, argv[1], argv[2], "/logs");
	return log_stream_print(c, buf_str(&t.url), a.follow, err) < 0 ? CLI_FAILED : CLI_OK;
}

static int send_input(struct toolbox *t, char **argv, const char *text, struct err *err)
{
	begin_command(t, argv[1], argv[2], "/input");
	toolbox_text(t, "data", text);
	return toolbox_call(t, "POST", NULL, err);
}

/* Standard input, line by line: what is no whole line gets its end from the server. */
static int send_stdin(struct toolbox *t, char **argv, struct err *err)
{
	auto_free char *line = malloc(INPUT_MAX + 1);
	if (!line)
		return err_set(err, ERR_NOMEM, "out of memory");
	while (fgets(line, INPUT_MAX + 1, stdin))
		if (send_input(t, argv, line, err) < 0)
			return -1;
	return 0;
}

int cmd_session_input(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	auto_buf struct buf text = BUF_INIT(INPUT_MAX);
	struct args a = {0};
	int code;
	if (!begin(c, &argc, argv, 2, INT16_MAX, &a, &t, &code, err))
		return code;
	if (argc == 2)
		return send_stdin(&t, argv, err) < 0 ? CLI_FAILED : CLI_OK;
	if (join(argv + 3, argc - 2, &text, err) < 0)
		return CLI_FAILED;
	return send_input(&t, argv, buf_str(&text), err) < 0 ? CLI_FAILED : CLI_OK;
}

int cmd_session_delete(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	struct args a = {0};
	int code;
	if (!begin(c, &argc, argv, 1, INT16_MAX, &a, &t, &code, err))
		return code;
	for (int i = 1; i <= argc; i++) {
		toolbox_begin(&t, "/process/session");
		toolbox_segment(&t, argv[i], "");
		if (toolbox_call(&t, "DELETE", NULL, err) < 0) {
			err_wrap(err, "%s", argv[i]);
			return CLI_FAILED;
		}
	}
	return CLI_OK;
}
