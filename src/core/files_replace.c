/*
 * files_replace.c - one text for another in a file. See caisson/files.h.
 *
 * The file is read twice in blocks: once to know whether there is anything to do, once to write
 * the new one beside it. A block ends where no occurrence can lie across its end.
 */
#include <errno.h>
#include <string.h>

#include "core/files_int.h"

#define REPLACE_BLOCK (256u << 10)

/* One pass: bytes go to out unless it is NULL. */
struct pass {
	int fd;
	const char *pattern, *value;
	size_t plen, vlen;
	struct file_put *out;
	uint64_t count, seen;
	size_t have;
	char buf[REPLACE_BLOCK];
};

static int pass_emit(struct pass *s, const char *p, size_t n, struct err *err)
{
	return s->out && n ? file_put_write(s->out, p, n, err) : 0;
}

/* What is in the buffer as far as it can be judged; last: all. */
static int pass_block(struct pass *s, bool last, struct err *err)
{
	const char *p = s->buf, *end = s->buf + s->have, *hit;
	size_t keep;

	while ((hit = memmem(p, (size_t)(end - p), s->pattern, s->plen))) {
		if (pass_emit(s, p, (size_t)(hit - p), err) < 0 ||
		    pass_emit(s, s->value, s->vlen, err) < 0)
			return -1;
		s->count++;
		p = hit + s->plen;
	}
	keep = last ? 0 : MIN((size_t)(end - p), s->plen - 1);
	if (pass_emit(s, p, (size_t)(end - p) - keep, err) < 0)
		return -1;
	memmove(s->buf, end - keep, keep);
	s->have = keep;
	return 0;
}

static int pass_run(struct pass *s, struct err *err)
{
	s->count = s->seen = s->have = 0;
	if (lseek(s->fd, 0, SEEK_SET) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "read");
	for (;;) {
		ssize_t n = read(s->fd, s->buf + s->have, sizeof(s->buf) - s->have);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, err_code_of_errno(errno), errno, "read");
		s->have += (size_t)n;
		s->seen += (uint64_t)n;
		if (s->seen > FILE_REPLACE_MAX)
			return err_set(err, ERR_TOO_LARGE, "the file is over %llu bytes",
				       FILE_REPLACE_MAX);
		if (pass_block(s, n == 0, err) < 0)
			return -1;
		if (n == 0)
			return 0;
	}
}

static int replace_at(struct core *c, const struct caller *who, const struct file_at *at,
		      struct pass *s, struct err *err)
{
	auto_file_put struct file_put put = FILE_PUT_INIT;

	s->fd = agent_open(at->agent, at->row.s.user, at->path, AGENT_OPEN_READ, 0, NULL, err);
	if (s->fd < 0 || pass_run(s, err) < 0)
		return -1;
	if (s->count == 0)
		return 0;
	if (file_put_at(c, at, 0, 0644, &put, err) < 0)
		return -1;
	s->out = &put;
	if (pass_run(s, err) < 0)
		return -1;
	return file_put_commit(&put, who, NULL, NULL, err);
}

int file_replace(struct core *c, const struct caller *who, const char *id, const char *path,
		 const char *pattern, const char *value, char path_out[AGENT_PATH_MAX],
		 uint64_t *ret_count, struct err *err)
{
	auto_file struct file_at at = {0};
	auto_free struct pass *s = NULL;
	int rc;

	snprintf(path_out, AGENT_PATH_MAX, "%s", path);
	if (!*pattern || strlen(pattern) > REPLACE_BLOCK / 2)
		return err_set(err, ERR_INVALID, "pattern: must have a length from 1 to %u",
			       REPLACE_BLOCK / 2);
	if (file_begin(c, who, id, path, &at, err) < 0)
		return -1;
	memcpy(path_out, at.path, AGENT_PATH_MAX);
	s = malloc(sizeof(*s));
	if (!s)
		return err_set(err, ERR_NOMEM, "out of memory");
	s->fd = -1;
	s->out = NULL;
	s->pattern = pattern;
	s->value = value;
	s->plen = strlen(pattern);
	s->vlen = strlen(value);
	rc = replace_at(c, who, &at, s, err);
	if (s->fd >= 0)
		close(s->fd);
	if (rc < 0)
		return agent_failed(c, who, id, err);
	*ret_count = s->count;
	return 0;
}
