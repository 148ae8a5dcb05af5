/*
 * exec_log.c - the native exec routes: a detached start, and output as lines of JSON.
 */
#include "cli/exec_log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/fd.h"
#include "cli/exec_msg.h"
#include "cli/lines.h"
#include "cli/rest.h"
#include "cli/table.h"

int exec_detached(struct cli *c, const char *sandbox, const struct exec_args *a, char **argv,
		  struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_json json_t *body = exec_msg_request(a, argv), *reply = NULL;
	if (!body) {
		err_set(err, ERR_INVALID, "an argument is not valid UTF-8");
		return CLI_OWN;
	}
	json_object_set_new(body, "detach", json_true());
	/* Nobody is there to type: input is at its end from the start. */
	json_object_set_new(body, "stdin", json_false());
	if (url_of(&url, "/caisson/sandboxes/", sandbox, "/exec", err) < 0 ||
	    rest_call(c, "POST", buf_str(&url), body, &reply, err) < 0)
		return CLI_OWN;
	if (c->json)
		return json_print(reply);
	text_print(stdout, json_text(reply, "id"));
	putchar('\n');
	return CLI_OK;
}

struct printer {
	struct buf bytes;
	bool reader_gone;
};

static int print_output(struct printer *k, const json_t *o, int fd, struct err *err)
{
	const json_t *data = json_object_get(o, "data");
	buf_clear(&k->bytes);
	if (base64_decode(json_string_value(data), json_string_length(data), &k->bytes, err) < 0)
		return err_wrap(err, "the server's output");
	if (fd_write_all(fd, k->bytes.data, k->bytes.len, 0, err) == 0)
		return 0;
	k->reader_gone = err->errnum == EPIPE;
	return err_wrap(err, "write output");
}

static int on_line(void *arg, char *line, struct err *err)
{
	struct printer *k = arg;
	auto_json json_t *o = json_loads(line, 0, NULL);
	const char *type = json_text(o, "type");
	if (!strcmp(type, "stdout"))
		return print_output(k, o, STDOUT_FILENO, err);
	if (!strcmp(type, "stderr"))
		return print_output(k, o, STDERR_FILENO, err);
	if (!strcmp(type, "error"))
		return err_set(err, ERR_UNAVAILABLE, "%s",
			       json_text(json_object_get(o, "error"), "message"));
	if (!strcmp(type, "gap"))
		fprintf(stderr, "caisson: logs: %lld bytes of %s are not kept any more\n",
			(long long)(json_number(o, "to") - json_number(o, "from")),
			!strcmp(json_text(o, "stream"), "stderr") ? "stderr" : "stdout");
	return 0;
}

int exec_log_print(struct cli *c, const char *sandbox, const char *id, bool follow, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	auto_call(lines_done) struct lines lines;
	struct printer k = {0};
	lines_init(&lines, on_line, &k);
	buf_init(&k.bytes, LINES_MAX);
	struct rest_stream s = {
		.write = lines_add, .arg = &lines, .size = -1, .accept = "application/x-ndjson"};
	fflush(stdout);
	int rc = -1;
	if (url_of(&url, "/caisson/sandboxes/", sandbox, "/exec", err) == 0 &&
	    url_of(&url, "/", id, "/output", err) == 0 &&
	    url_query(&url, "encoding", "base64", err) == 0 &&
	    (!follow || url_query(&url, "follow", "true", err) == 0))
		rc = rest_stream(c, "GET", buf_str(&url), &s, NULL, err);
	buf_done(&k.bytes);
	if (rc < 0 && k.reader_gone) {
		*err = (struct err){0};
		return 1;
	}
	return rc;
}
