/*
 * reap.c - ends of processes: pid 1 inherits every orphan and leaves no zombie.
 *
 * Only this file waits. A spawn puts its pid into its conn before the loop gets here again, so an
 * exit is matched however fast it was; a pid that no conn claims is an orphan. A pid stays ours
 * until it is waited for, so a match can't be a recycled number.
 */
#include "init/task.h"

#include <dirent.h>
#include <sys/wait.h>

static struct conn *exec_find(struct init *in, pid_t pid)
{
	for (size_t i = 0; i < in->conns_high; i++)
		if (in->conn[i].state == CONN_EXEC && in->conn[i].exec.pid == pid)
			return &in->conn[i];
	return NULL;
}

uint64_t timeval_us(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000 + (uint64_t)tv->tv_usec;
}

static void exec_ended(struct init *in, struct conn *c, int status, const struct rusage *ru)
{
	uint8_t raw[32];
	struct wire_out o = wire_out_on(raw, sizeof(raw));

	tree_retire(&c->exec);
	c->exec.pid = 0;
	if (WIFSIGNALED(status)) {
		wire_put_u8(&o, AGENT_EXIT_SIGNAL);
		wire_put_u32(&o, (uint32_t)WTERMSIG(status));
	} else {
		wire_put_u8(&o, AGENT_EXIT_CODE);
		wire_put_u32(&o, (uint32_t)WEXITSTATUS(status));
	}
	wire_put_u64(&o, timeval_us(&ru->ru_utime));
	wire_put_u64(&o, timeval_us(&ru->ru_stime));
	wire_put_u64(&o, (uint64_t)ru->ru_maxrss);
	conn_send(in, c, AGENT_EXITED, raw, o.len, NULL, 0, true);
}

void reap_orphans(struct init *in)
{
	bool orphans = false;

	for (;;) {
		struct rusage ru;
		int status;
		pid_t pid = wait4(-1, &status, WNOHANG | __WALL, &ru);
		struct conn *c;

		if (pid <= 0)
			break;
		c = exec_find(in, pid);
		if (c)
			exec_ended(in, c, status, &ru);
		else if (!task_exited(in, pid, status, &ru))
			orphans = true;
	}
	if (orphans)
		tree_sweep();
}

void reap_all(struct init *in)
{
	reap_orphans(in);
	for (size_t i = 0; i < in->conns_high; i++)
		if (in->conn[i].state == CONN_TERM)
			request_term_check(in, &in->conn[i]);
}

uint32_t reap_survivors(void)
{
	auto_closedir DIR *proc = opendir("/proc");
	struct dirent *ent;
	uint32_t n = 0;

	if (!proc)
		return 1;
	while ((ent = readdir(proc)))
		if (ent->d_name[0] >= '1' && ent->d_name[0] <= '9')
			n++;
	/* Ourselves; what ended since the last look may make it one too many. */
	return n > 1 ? n - 1 : 1;
}
