/*
 * delete_each.c - the delete commands of things that are gone once the daemon has answered.
 */
#include "cli/opt.h"
#include "cli/rest.h"

int rest_delete_each(struct cli *c, int argc, char **argv, const char *prefix, const char *what,
		     struct err *err)
{
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left == 0) {
		err_set(err, ERR_INVALID, "name at least one %s", what);
		return CLI_USAGE;
	}
	for (int i = 0; i < left; i++) {
		auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
		if (url_of(&url, prefix, argv[i], "", err) < 0 ||
		    rest_call(c, "DELETE", buf_str(&url), NULL, NULL, err) < 0) {
			err_wrap(err, "%s", argv[i]);
			return CLI_FAILED;
		}
	}
	return CLI_OK;
}
