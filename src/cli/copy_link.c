/*
 * copy_link.c - symbolic links, which the files API can't make, and what a copy leaves out. Links
 * on the way up are made by the sandbox's own ln, many to a shell; each tells that it is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/id.h"
#include "cli/copy.h"
#include "cli/rest.h"
#include "cli/table.h"

#define LINK_BATCH_BYTES (64u << 10) /* of shell text; one link is 32 KiB at most */
#define LINK_SHELL_S	 60

void copy_leave(struct copy *k, const char *path, const char *why)
{
	size_t i = (size_t)k->skipped++;
	if (i >= COPY_LEFT_SHOWN)
		return;
	size_t cap = strlen(path) + strlen(why) + 4;
	k->left[i] = malloc(cap);
	if (k->left[i])
		snprintf(k->left[i], cap, "%s (%s)", path, why);
}

void copy_done(struct copy *k)
{
	for (size_t i = 0; i < COPY_LEFT_SHOWN; i++)
		free(k->left[i]);
	for (size_t i = 0; i < k->nlinks; i++)
		free(k->link[i]);
	k->nlinks = 0;
	buf_done(&k->shell);
}

/* 'text' for a shell, whatever is in it. */
static int quote(struct buf *b, const char *text, struct err *err)
{
	if (buf_adds(b, " '", err) < 0)
		return -1;
	for (; *text; text++) {
		int rc = *text == '\'' ? buf_adds(b, "'\\''", err) : buf_add(b, text, 1, err);
		if (rc < 0)
			return -1;
	}
	return buf_adds(b, "'", err);
}

/* Numbers of the links that are there, one a line; other lines are noise of the shell. */
static void read_made(const char *text, bool made[COPY_LINKS_MAX])
{
	while (*text) {
		char *end;
		unsigned long i = strtoul(text, &end, 10);
		if (end != text && (*end == '\n' || !*end) && i < COPY_LINKS_MAX)
			made[i] = true;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
}

int copy_links_flush(struct copy *k, struct err *err)
{
	bool made[COPY_LINKS_MAX] = {false};
	struct err why = {0};
	char url[REST_URL_MAX];
	auto_json json_t *reply = NULL;
	if (!k->nlinks)
		return 0;
	auto_json json_t *body = json_object();
	json_object_set_new(body, "command", json_string(buf_str(&k->shell)));
	json_object_set_new(body, "timeout", json_integer(LINK_SHELL_S));
	if (snprintf(url, sizeof(url), "%s/process/execute", k->toolbox) >= (int)sizeof(url))
		return err_set(err, ERR_INVALID, "the URL is too long");
	if (rest_call(k->c, "POST", url, body, &reply, &why) == 0)
		read_made(json_text(reply, "result"), made);
	for (size_t i = 0; i < k->nlinks; i++) {
		if (made[i])
			k->links++;
		else
			copy_leave(k, k->link[i],
				   why.msg[0] ? why.msg : "ln could not make the link there");
		free(k->link[i]);
	}
	k->nlinks = 0;
	buf_clear(&k->shell);
	return 0;
}

static bool is_text(const char *text)
{
	auto_json json_t *v = json_string(text);
	return v != NULL;
}

int copy_link_up(struct copy *k, int dirfd, const char *name, const char *remote, struct err *err)
{
	char target[COPY_PATH_MAX];
	ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
	if (n < 0)
		return err_errno(err, ERR_INTERNAL, errno, "%s", name);
	target[n] = '\0';
	if (!is_text(target) || !is_text(remote)) {
		copy_leave(k, remote, "a link that is not UTF-8");
		return 0;
	}
	if ((k->nlinks == COPY_LINKS_MAX || k->shell.len > LINK_BATCH_BYTES / 2) &&
	    copy_links_flush(k, err) < 0)
		return -1;
	if (!k->shell.max)
		buf_init(&k->shell, 2 * LINK_BATCH_BYTES);
	char *copy = strdup(remote);
	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory");
	size_t i = k->nlinks++;
	k->link[i] = copy;
	if (buf_adds(&k->shell, "ln -sfnT --", err) < 0 || quote(&k->shell, target, err) < 0 ||
	    quote(&k->shell, remote, err) < 0)
		return -1;
	return buf_addf(&k->shell, err, " 2> /dev/null && echo %zu\n", i);
}

int copy_link_down(struct copy *k, const char *remote, const char *target, int dirfd,
		   const char *name, struct err *err)
{
	char hex[17], temp[64];
	/* The API shows bytes that are no UTF-8 as U+FFFD: such a target would be another. */
	if (!*target || strstr(target, "\xef\xbf\xbd")) {
		copy_leave(k, remote, "a link whose target is not known");
		return 0;
	}
	id_hex(hex, 8);
	snprintf(temp, sizeof(temp), ".caisson-%s", hex);
	if (symlinkat(target, dirfd, temp) < 0)
		return err_errno(err, ERR_INVALID, errno, "%s", name);
	if (renameat(dirfd, temp, dirfd, name) < 0) {
		err_errno(err, ERR_INVALID, errno, "%s", name);
		unlinkat(dirfd, temp, 0);
		return -1;
	}
	k->links++;
	return 0;
}
