/*
 * files_put.c - whole files into a sandbox. See caisson/files.h.
 */
#include <errno.h>
#include <string.h>

#include "core/files_int.h"

#define HOLE_MIN    4096	/* shorter runs of zeros are written */
#define TOUCH_BYTES (64u << 20) /* a long upload is activity, too */

int file_put_at(struct core *c, const struct file_at *f, uint32_t flags, mode_t mode,
		struct file_put *ret, struct err *err)
{
	struct file_put p = {.core = c, .put = AGENT_PUT_INIT};

	if (agent_put(f->agent, f->row.s.user, f->path, flags, mode, &p.put, err) < 0)
		return -1;
	memcpy(p.id, f->row.s.id, ID_LEN);
	*ret = p;
	return 0;
}

int file_put_open(struct core *c, const struct caller *who, const char *id, const char *path,
		  uint32_t flags, mode_t mode, struct file_put *ret, struct err *err)
{
	auto_file struct file_at f = {0};

	if (file_begin(c, who, id, path, &f, err) < 0)
		return -1;
	if (file_put_at(c, &f, flags, mode, ret, err) < 0)
		return agent_failed(c, who, id, err);
	return 0;
}

static bool is_zero(const char *p, size_t n)
{
	static const char zeros[16];

	return memcmp(p, zeros, sizeof(zeros)) == 0 &&
	       memcmp(p, p + sizeof(zeros), n - sizeof(zeros)) == 0;
}

static int put_bytes(struct file_put *f, const char *p, size_t n, struct err *err)
{
	while (n) {
		ssize_t k = write(f->put.fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_errno(err, err_code_of_errno(errno), errno, "write");
		p += k;
		n -= (size_t)k;
		f->size += (uint64_t)k;
	}
	return 0;
}

void file_put_skip(struct file_put *f, uint64_t n)
{
	f->hole += n;
	f->size += n;
}

int file_put_write(struct file_put *f, const void *p, size_t n, struct err *err)
{
	if (f->size - f->touched >= TOUCH_BYTES) {
		f->touched = f->size;
		slot_touch(f->core, f->id);
	}
	if (n >= HOLE_MIN && is_zero(p, n)) {
		file_put_skip(f, n);
		return 0;
	}
	if (f->hole && lseek(f->put.fd, (off_t)f->size, SEEK_SET) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "write");
	f->hole = 0;
	return put_bytes(f, p, n, err);
}

int file_put_commit(struct file_put *f, const struct caller *who, const int64_t *mtime_ns,
		    bool *ret_atomic, struct err *err)
{
	if (f->hole && ftruncate(f->put.fd, (off_t)f->size) < 0)
		return err_errno(err, err_code_of_errno(errno), errno, "write");
	f->hole = 0;
	if (agent_put_commit(&f->put, mtime_ns, ret_atomic, err) < 0)
		return agent_failed(f->core, who, f->id, err);
	slot_touch(f->core, f->id);
	return 0;
}

void file_put_done(struct file_put *f)
{
	agent_put_done(&f->put);
}
