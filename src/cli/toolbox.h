/*
 * toolbox.h - calls to the API inside one sandbox: its address asked once, bodies made step by
 * step.
 */
#ifndef CAISSON_CLI_TOOLBOX_H
#define CAISSON_CLI_TOOLBOX_H

#include <jansson.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/rest.h"

struct toolbox {
	struct cli *c;
	struct buf base; /* "http://…/toolbox/<id>" */
	struct buf url;	 /* of the call under way */
	json_t *body;	 /* of the call under way; NULL none */
	bool failed;	 /* out of memory, or text that is no UTF-8: told by the call */
	int patience_s;	 /* 0: as long as it takes */
};

/* The toolbox of a sandbox by id or name; patience is that of other JSON calls. */
int toolbox_open(struct toolbox *t, struct cli *c, const char *sandbox, struct err *err);
void toolbox_done(struct toolbox *t);
#define auto_toolbox auto_call(toolbox_done)

/* Begin a call: what follows adds to it. Parts of the path that clients chose go through segment.
 */
void toolbox_begin(struct toolbox *t, const char *path);
void toolbox_segment(struct toolbox *t, const char *name, const char *suffix);
/* A value of NULL adds nothing. */
void toolbox_query(struct toolbox *t, const char *key, const char *value);
void toolbox_text(struct toolbox *t, const char *key, const char *value);
void toolbox_flag(struct toolbox *t, const char *key, bool value);   /* false adds nothing */
void toolbox_int(struct toolbox *t, const char *key, int64_t value); /* OPT_UNSET adds nothing */
void toolbox_texts(struct toolbox *t, const char *key, char **value, int n);
/* ret may be NULL, or gets a new reference. */
int toolbox_call(struct toolbox *t, const char *method, json_t **ret, struct err *err);

#endif
