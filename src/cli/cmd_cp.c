/*
 * cmd_cp.c - `caisson cp`: one side is SANDBOX:PATH, the other a local path or "-".
 */
#include <string.h>

#include "cli/copy.h"
#include "cli/opt.h"
#include "cli/rest.h"
#include "cli/table.h"

const struct opt opts_cp[] = {{.kind = OPT_END}};

/* The path behind "SANDBOX:", or NULL for a local one ("./a:b" is local: a slash comes first). */
static const char *remote_part(const char *arg)
{
	const char *colon = strchr(arg, ':'), *slash = strchr(arg, '/');
	return colon && colon != arg && (!slash || slash > colon) ? colon + 1 : NULL;
}

static int copy(struct cli *c, const char *from, const char *to, struct copy *k, struct err *err)
{
	const char *down = remote_part(from), *up = remote_part(to);
	const char *side = down ? from : to, *path = down ? down : up;
	auto_free char *name = strndup(side, (size_t)(path - side) - 1);
	auto_json json_t *sb = NULL;
	auto_buf struct buf toolbox = BUF_INIT(REST_URL_MAX);
	if (!name)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (rest_sandbox(c, name, &sb, err) < 0 || rest_toolbox(c, sb, &toolbox, err) < 0)
		return -1;
	k->toolbox = buf_str(&toolbox);
	k->sandbox = json_text(sb, "id");
	progress_begin(&k->progress, c, path, -1);
	int rc = down ? copy_down(k, down, to, err) : copy_up(k, from, up, err);
	progress_end(&k->progress);
	return rc;
}

static void print_left(const struct copy *k)
{
	for (size_t i = 0; i < COPY_LEFT_SHOWN && k->left[i]; i++) {
		fputs("caisson: cp: left out ", stderr);
		text_print(stderr, k->left[i]);
		fputc('\n', stderr);
	}
	if (k->skipped > COPY_LEFT_SHOWN)
		fprintf(stderr, "caisson: cp: left out %llu more\n",
			(unsigned long long)k->skipped - COPY_LEFT_SHOWN);
}

int cmd_cp(struct cli *c, int argc, char **argv, struct err *err)
{
	struct copy k = {.c = c, .fd = -1};
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 2 || !remote_part(argv[0]) == !remote_part(argv[1])) {
		err_set(err, ERR_INVALID, "takes two paths, one of them SANDBOX:PATH");
		return CLI_USAGE;
	}
	int rc = copy(c, argv[0], argv[1], &k, err);
	print_left(&k);
	if (rc == 0 && c->json)
		printf("{\"files\": %llu, \"links\": %llu, \"bytes\": %llu, \"skipped\": %llu}\n",
		       (unsigned long long)k.files, (unsigned long long)k.links,
		       (unsigned long long)k.bytes, (unsigned long long)k.skipped);
	if (rc == 0 && k.skipped)
		rc = err_set(err, ERR_CONFLICT, "%llu left out, the rest is copied",
			     (unsigned long long)k.skipped);
	copy_done(&k);
	return rc < 0 ? CLI_FAILED : CLI_OK;
}
