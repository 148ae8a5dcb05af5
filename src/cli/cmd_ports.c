/*
 * cmd_ports.c - `caisson ports`: what listens in a sandbox.
 */
#include "cli/opt.h"
#include "cli/table.h"
#include "cli/toolbox.h"

int cmd_ports(struct cli *c, int argc, char **argv, struct err *err)
{
	auto_toolbox struct toolbox t = {0};
	auto_json json_t *reply = NULL;
	json_t *it;
	size_t i;
	int left = opt_parse(c, argc, argv, NULL, err);
	if (left < 0 || c->help)
		return left < 0 ? CLI_USAGE : CLI_OK;
	if (left != 1)
		return cli_usage(err, "takes one sandbox, by id or name");
	if (toolbox_open(&t, c, argv[0], err) < 0)
		return CLI_FAILED;
	toolbox_begin(&t, "/port");
	if (toolbox_call(&t, "GET", &reply, err) < 0)
		return CLI_FAILED;
	json_t *ports = json_object_get(reply, "ports");
	if (c->json)
		return json_print(ports ? ports : reply);
	json_array_foreach(ports, i, it) printf("%lld\n", (long long)json_integer_value(it));
	return CLI_OK;
}
