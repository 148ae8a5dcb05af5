/*
 * sandbox.h - steps on sandboxes that several sub-commands take.
 */
#ifndef CAISSON_CLI_SANDBOX_H
#define CAISSON_CLI_SANDBOX_H

#include <jansson.h>
#include <stdint.h>

#include "base/kv.h"
#include "cli/cli.h"
#include "cli/opt.h"

#define SANDBOX_WAIT_MS 60000 /* most a command waits for a state unless told otherwise */

/* Options of a create; `run` has them too. */
struct create_args {
	const char *name, *snapshot, *user, *target;
	struct kv env, labels;
	int64_t cpu, memory, disk;
	int64_t auto_stop, auto_archive, auto_delete, ttl;
	bool is_public, block_network, no_wait;
	int64_t wait_ms;
	const char *idempotency_key;
};
void create_args_done(struct create_args *a);

/*
 * POST /sandbox, then wait for "started". *ret is a new reference, also on failure when there is a
 * sandbox all the same: the caller may want it gone.
 */
int sandbox_create(struct cli *c, const struct create_args *a, json_t **ret, struct err *err);
/*
 * Poll until the state is want; error states end with ERR_CONFLICT. *sb is replaced. An ephemeral
 * sandbox that was to stop and is deleted by that has arrived too; its state is "destroyed".
 */
int sandbox_wait(struct cli *c, json_t **sb, const char *want, int64_t wait_ms, struct err *err);
int sandbox_delete(struct cli *c, const char *id, struct err *err);
/* Whether standard error is a terminal and progress is wanted. */
bool cli_progress(const struct cli *c);

/* clang-format off */
#define CREATE_OPTS(type, field)                                                                   \
	{'n', "name", "NAME", "name of the sandbox", OPT_STR, offsetof(type, field.name)},         \
	{0, "snapshot", "NAME", "snapshot to start from", OPT_STR, offsetof(type, field.snapshot)},\
	{0, "image-user", "USER", "user that commands run as", OPT_STR,                            \
	 offsetof(type, field.user)},                                                              \
	{0, "target", "REGION", "region", OPT_STR, offsetof(type, field.target)},                  \
	{'e', "env", "KEY[=VALUE]", "environment of every process (repeat)", OPT_ENV,              \
	 offsetof(type, field.env)},                                                               \
	{'l', "label", "KEY=VALUE", "label (repeat)", OPT_KV, offsetof(type, field.labels)},       \
	{0, "cpu", "CORES", "processors", OPT_INT, offsetof(type, field.cpu)},                     \
	{0, "memory", "GIB", "memory in GiB", OPT_INT, offsetof(type, field.memory)},              \
	{0, "disk", "GIB", "disk in GiB", OPT_INT, offsetof(type, field.disk)},                    \
	{0, "block-network", NULL, "no network but the resolver", OPT_FLAG,                        \
	 offsetof(type, field.block_network)}
/* clang-format on */

#endif
