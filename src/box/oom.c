/*
 * oom.c - see oom.h.
 */
#include "box/oom.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"

#define OOM_RECORD_MAX 8192

int oom_open(struct err *err)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open /dev/kmsg");
	if (lseek(fd, 0, SEEK_END) < 0) {
		err_errno(err, ERR_INTERNAL, errno, "seek /dev/kmsg");
		close(fd);
		return -1;
	}
	return fd;
}

/*
 * "prio,seq,time,-;oom-kill:constraint=…,oom_memcg=…,task_memcg=/TREE/NAME[/…],task=COMM,
 * pid=N,uid=N". COMM may hold commas; pid is taken from the end of the line.
 */
bool oom_parse(const char *record, const char *tree, struct oom_victim *ret)
{
	const char *text = strchr(record, ';'), *group, *task, *pid = NULL;
	struct oom_victim v = {.pid = 0};
	size_t n = strlen(tree);

	if (!text || strncmp(text + 1, "oom-kill:", 9) != 0)
		return false;
	group = strstr(text, ",task_memcg=/");
	if (!group)
		return false;
	group += strlen(",task_memcg=/");
	if (strncmp(group, tree, n) != 0 || group[n] != '/')
		return false;
	group += n + 1;
	n = strcspn(group, "/,\n");
	if (n == 0 || n >= CG_NAME_LEN)
		return false;
	memcpy(v.cg, group, n);
	task = strstr(group, ",task=");
	if (!task)
		return false;
	task += strlen(",task=");
	for (const char *p = strstr(task, ",pid="); p; p = strstr(p + 1, ",pid="))
		pid = p;
	if (!pid || pid - task >= OOM_COMM_LEN)
		return false;
	for (const char *p = task; p < pid; p++)
		v.comm[p - task] = isprint((unsigned char)*p) ? *p : '?';
	v.pid = (pid_t)strtol(pid + 5, NULL, 10);
	*ret = v;
	return true;
}

int oom_next(int fd, const char *tree, struct oom_victim *ret, struct err *err)
{
	char record[OOM_RECORD_MAX];

	for (;;) {
		ssize_t n = read(fd, record, sizeof(record) - 1);

		if (n < 0 && (errno == EINTR || errno == EPIPE))
			continue; /* EPIPE: records were overwritten; the next read goes on */
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return err_errno(err, ERR_INTERNAL, errno, "read /dev/kmsg");
		record[n] = '\0';
		if (oom_parse(record, tree, ret))
			return 1;
	}
}

uint32_t oom_inner_pid(pid_t pid)
{
	char path[40], text[4096], *line, *last;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	if (path_read_at(AT_FDCWD, path, text, sizeof(text), NULL) < 0)
		return 0;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return 0;
	line[1 + strcspn(line + 1, "\n")] = '\0';
	last = strrchr(line, '\t');
	return last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
}
