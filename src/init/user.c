/*
 * user.c - accounts of the image, read from its /etc/passwd and /etc/group.
 *
 * The files belong to the sandbox: they may be missing, huge, a FIFO or nonsense. Lines that do
 * not parse do not exist. No NSS: pid 1 loads nothing of the image (CVE-2019-14271).
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/path.h"

#define ETC_LINE_MAX 8192
#define ID_MAX	     2147483647u /* Docker's */

struct account {
	char *field[8]; /* of one line */
	size_t n;
};

/* Returns true to stop. */
typedef bool (*etc_line_fn)(void *arg, const struct account *line);

static bool line_run(char *text, etc_line_fn fn, void *arg)
{
	struct account line = {.n = 0};

	for (;;) {
		char *colon = strchr(text, ':');

		line.field[line.n++] = text;
		if (!colon || line.n == ARRAY_LEN(line.field))
			break;
		*colon = '\0';
		text = colon + 1;
	}
	return line.n >= 3 && fn(arg, &line);
}

/* Run all whole lines of text[0..len); returns the bytes used, or -1 when fn is satisfied. */
static ssize_t lines_run(char *text, size_t len, bool last, etc_line_fn fn, void *arg)
{
	size_t at = 0;

	for (;;) {
		char *end = memchr(text + at, '\n', len - at);

		if (!end && !(last && at < len))
			return (ssize_t)at;
		if (!end)
			end = text + len;
		*end = '\0';
		if (line_run(text + at, fn, arg))
			return -1;
		at = (size_t)(end - text) + 1;
		if (at > len)
			return (ssize_t)len;
	}
}

/* Lines over ETC_LINE_MAX are dropped. */
static void etc_lines(const char *path, etc_line_fn fn, void *arg)
{
	char text[ETC_LINE_MAX + 1];
	auto_close int fd = path_open_in(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, NULL);
	size_t len = 0, total = 0;
	bool skip = false;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	while (total < INIT_ETC_MAX) {
		ssize_t got = read(fd, text + len, ETC_LINE_MAX - len), used;

		if (got < 0)
			return;
		total += (size_t)got;
		len += (size_t)got;
		used = skip ? 0 : lines_run(text, len, got == 0, fn, arg);
		if (used < 0 || got == 0)
			return;
		if (skip) {
			char *end = memchr(text, '\n', len);

			used = end ? end - text + 1 : (ssize_t)len;
			skip = !end;
		} else if (used == 0 && len == ETC_LINE_MAX) {
			skip = true;
			used = (ssize_t)len;
		}
		len -= (size_t)used;
		memmove(text, text + used, len);
	}
}

/* Decimal digits only, no sign, space, hex or leading zero. */
static bool id_parse(const char *s, uint32_t *ret)
{
	uint64_t v = 0;

	if (!*s || (s[0] == '0' && s[1]))
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > ID_MAX)
			return false;
	}
	*ret = (uint32_t)v;
	return true;
}

static bool digits_only(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == '\0';
}

/* What useradd would make, and a little more: no blank, sign or separator in front or inside. */
static bool name_valid(const char *s)
{
	static const char more[] = "._-@+$\\";

	if (*s == '-' || *s == '+' || *s == '\0' || digits_only(s))
		return false;
	for (; *s; s++) {
		bool alnum = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
			     (*s >= '0' && *s <= '9') || (unsigned char)*s >= 0x80;

		if (!alnum && !strchr(more, *s))
			return false;
	}
	return true;
}

struct user_query {
	const char *name; /* or NULL: by id */
	uint32_t id;
	bool found;
	struct user *u;
};

static void text_set(char *dst, size_t cap, const char *src, const char *otherwise)
{
	size_t n = strlen(src);

	if (n == 0 || n >= cap) {
		src = otherwise;
		n = strlen(src);
	}
	memcpy(dst, src, n + 1);
}

static bool passwd_line(void *arg, const struct account *line)
{
	struct user_query *q = arg;
	uint32_t uid, gid;

	if (line->n < 4 || !id_parse(line->field[2], &uid) || !id_parse(line->field[3], &gid))
		return false;
	if (q->name ? strcmp(q->name, line->field[0]) != 0 : q->id != uid)
		return false;
	q->u->uid = uid;
	q->u->gid = gid;
	text_set(q->u->name, sizeof(q->u->name), line->field[0], "");
	text_set(q->u->home, sizeof(q->u->home), line->n > 5 ? line->field[5] : "", "/");
	text_set(q->u->shell, sizeof(q->u->shell), line->n > 6 ? line->field[6] : "", "/bin/sh");
	if (q->u->home[0] != '/')
		text_set(q->u->home, sizeof(q->u->home), "/", "/");
	q->found = true;
	return true;
}

static bool group_line(void *arg, const struct account *line)
{
	struct user_query *q = arg;
	uint32_t gid;

	if (!id_parse(line->field[2], &gid))
		return false;
	if (q->name ? strcmp(q->name, line->field[0]) != 0 : q->id != gid)
		return false;
	q->id = gid;
	q->found = true;
	return true;
}

static bool list_has(const char *list, const char *name)
{
	size_t n = strlen(name);

	while (*list) {
		size_t k = strcspn(list, ",");

		if (k == n && memcmp(list, name, n) == 0)
			return true;
		list += k + (list[k] == ',');
	}
	return false;
}

static bool member_line(void *arg, const struct account *line)
{
	struct user *u = arg;
	uint32_t gid;

	if (line->n < 4 || !id_parse(line->field[2], &gid) || gid == u->gid)
		return false;
	if (list_has(line->field[3], u->name) && u->ngroups < INIT_GROUPS_MAX)
		u->groups[u->ngroups++] = gid;
	return false;
}

/* By number, else by name; the number of a name is looked up in path. Root is 0 without a line:
 * images of a single program have no accounts. */
static int id_find(const char *what, const char *text, const char *path, etc_line_fn fn,
		   struct user_query *q, struct err *err)
{
	if (digits_only(text)) {
		if (!id_parse(text, &q->id))
			return err_set(err, ERR_INVALID, "%s: \"%s\" is not an id from 0 to %u",
				       what, text, ID_MAX);
	} else if (name_valid(text)) {
		q->name = text;
	} else {
		return err_set(err, ERR_INVALID,
			       "%s: \"%s\" is not a name, an id, name:group or uid:gid", what,
			       text);
	}
	etc_lines(path, fn, q);
	if (q->name && !q->found && strcmp(q->name, "root") != 0)
		return err_set(err, ERR_INVALID, "%s: no \"%s\" in %s", what, text, path);
	return 0;
}

/* An id without a line: group 0 and home "/", as Docker has it; root's home where there is one. */
static void user_bare(struct user *u, uint32_t id, const char *number)
{
	auto_close int home =
		id ? -1 : path_open_in(AT_FDCWD, "/root", O_PATH | O_DIRECTORY, 0, NULL);

	u->uid = id;
	text_set(u->name, sizeof(u->name), id ? number : "root", "");
	if (home >= 0)
		text_set(u->home, sizeof(u->home), "/root", "/");
}

int user_find(const char *text, struct user *ret, struct err *err)
{
	char part[AGENT_USER_MAX];
	struct user_query q = {.u = ret}, g = {.u = ret};
	const char *group = NULL;
	char *colon;

	if (strlen(text) >= sizeof(part))
		return err_set(err, ERR_INVALID, "user: longer than %zu bytes", sizeof(part) - 1);
	memcpy(part, text[0] ? text : "0", text[0] ? strlen(text) + 1 : 2);
	colon = strchr(part, ':');
	if (colon) {
		*colon = '\0';
		group = colon + 1;
	}
	*ret = (struct user){.home = "/", .shell = "/bin/sh"};
	if (id_find("user", part, "/etc/passwd", passwd_line, &q, err) < 0)
		return -1;
	if (!q.found)
		user_bare(ret, q.id, part);
	if (group) {
		if (id_find("user", group, "/etc/group", group_line, &g, err) < 0)
			return -1;
		ret->gid = g.id;
	}
	ret->groups[ret->ngroups++] = ret->gid;
	/* An explicit group replaces the memberships. */
	if (q.found && !group)
		etc_lines("/etc/group", member_line, ret);
	return 0;
}

int user_owner(const char *text, uint32_t *ret, struct err *err)
{
	struct user u;
	struct user_query q = {.u = &u};

	*ret = (uint32_t)-1;
	if (!*text)
		return 0;
	if (id_find("owner", text, "/etc/passwd", passwd_line, &q, err) < 0)
		return -1;
	*ret = q.found ? u.uid : q.id;
	return 0;
}

int user_group(const char *text, uint32_t *ret, struct err *err)
{
	struct user_query q = {.found = false};

	*ret = (uint32_t)-1;
	if (!*text)
		return 0;
	if (id_find("group", text, "/etc/group", group_line, &q, err) < 0)
		return -1;
	*ret = q.id;
	return 0;
}

/*
 * Raw calls: libc's would change all threads. A file uid other than 0 takes the capabilities over
 * files out of the effective set of this thread (capabilities(7)); 0 puts them back.
 */
int user_enter(const struct user *u, struct err *err)
{
	if (syscall(SYS_setgroups, u->ngroups, u->groups) < 0)
		return err_errno(err, ERR_INVALID, errno, "user: groups of %s", u->name);
	syscall(SYS_setfsgid, u->gid);
	syscall(SYS_setfsuid, u->uid);
	/* They report nothing; asking for an impossible id gives the one in force. */
	if ((uint32_t)syscall(SYS_setfsuid, -1) != u->uid ||
	    (uint32_t)syscall(SYS_setfsgid, -1) != u->gid) {
		user_leave();
		return err_set(err, ERR_INVALID, "user: ids %u:%u do not exist in this sandbox",
			       u->uid, u->gid);
	}
	return 0;
}

void user_leave(void)
{
	syscall(SYS_setfsuid, 0);
	syscall(SYS_setfsgid, 0);
	syscall(SYS_setgroups, 0, NULL);
}
