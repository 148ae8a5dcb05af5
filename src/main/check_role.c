/*
 * check_role.c - `caissond check`, and what of it only this folder can ask.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "caisson/core.h"
#include "main/roles.h"

/* In a child, as the user the api process will be: a file that root can read may not do. */
static void records_child(const struct config *c, int out)
{
	struct err err = {0};
	uid_t uid;
	gid_t gid;

	if (role_ids(c, &uid, &gid, &err) < 0 ||
	    (!c->no_privsep && role_drop(uid, gid, &err) < 0) || core_check(c->data_dir, &err) < 0)
		(void)!write(out, err.msg, strlen(err.msg));
	_exit(err.code == ERR_NONE ? 0 : 1);
}

static int records_check(void *arg, struct err *err)
{
	int status = 0, out[2];
	char why[ERR_MSG_MAX];
	ssize_t n;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_errno(err, ERR_NOMEM, errno, "make a pipe to check the records");
	pid = fork();
	if (pid == 0)
		records_child(arg, out[1]);
	close(out[1]);
	n = pid > 0 ? read(out[0], why, sizeof(why) - 1) : 0;
	close(out[0]);
	why[n > 0 ? n : 0] = '\0';
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_errno(err, ERR_NOMEM, errno, "fork to check the records");
	if (status == 0)
		return 0;
	return err_set(err, ERR_INTERNAL, "%s",
		       why[0] ? why : "whoever reads the records is killed by them");
}

void role_doctor_config(const struct config *c, struct doctor_config *ret)
{
	*ret = (struct doctor_config){
		.data_dir = c->data_dir,
		.run_dir = c->run_dir,
		.cache_dir = c->cache_dir,
		.default_image = c->default_image,
		.uplink_netns = c->uplink_netns,
		.disk_low = (uint64_t)c->disk_low,
		.records = records_check,
		.arg = (void *)c,
	};
}

int role_check(struct config *c)
{
	struct doctor_config dc;

	if (geteuid() != 0) {
		fprintf(stderr, "caissond: check needs root to try what the daemon will do\n");
		return 1;
	}
	role_doctor_config(c, &dc);
	return doctor_run(&dc, stdout);
}
