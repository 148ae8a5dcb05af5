/*
 * drop.c - how a role gives up root.
 *
 * role_drop should leave no way back: supplementary groups, all three ids of each kind, every
 * capability, and no_new_privs so that a setuid program changes nothing. It must run before any
 * thread exists and before any byte of a client, an agent or an image is read.
 * role_seccomp_api mustn't restrict threads, sockets, files or memory: the libraries of the api
 * process need them; it shuts the calls through which a taken-over process would go on.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "main/roles.h"

int role_ids(const struct config *c, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	const struct passwd *pw = getpwnam(c->api_user ? c->api_user : "caisson");

	if (!pw && c->api_user)
		return err_set(err, ERR_INVALID, "api-user: there is no user \"%s\"", c->api_user);
	if (pw && pw->pw_uid == 0)
		return err_set(err, ERR_INVALID, "api-user: must not be root");
	*ret_uid = pw ? pw->pw_uid : ROLE_UID_DEFAULT;
	*ret_gid = pw ? pw->pw_gid : ROLE_UID_DEFAULT;
	return 0;
}

int role_drop(uid_t uid, gid_t gid, struct err *err)
{
	cap_t none = cap_init();
	int rc;

	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(uid, uid, uid) < 0) {
		rc = err_errno(err, ERR_INTERNAL, errno, "change to uid %u", uid);
		cap_free(none);
		return rc;
	}
	rc = none ? cap_set_proc(none) : -1;
	cap_free(none);
	if (rc < 0)
		return err_errno(err, ERR_INTERNAL, errno, "drop capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "set no_new_privs");
	if (setuid(0) == 0)
		return err_set(err, ERR_INTERNAL, "root could be taken back");
	return 0;
}

int role_thread_files(uid_t uid, gid_t gid, struct err *err)
{
	/* The file mask is otherwise one for all threads, and the runner relies on its own. */
	if (unshare(CLONE_FS) < 0)
		return err_errno(err, ERR_INTERNAL, errno, "give the api thread its own file mask");
	umask(077);
	setfsgid(gid);
	setfsuid(uid);
	if (setfsuid((uid_t)-1) != (int)uid)
		return err_set(err, ERR_INTERNAL, "take the file ids of uid %u", uid);
	return 0;
}

static const int api_denied[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsmount),
	SCMP_SYS(move_mount),
	SCMP_SYS(open_tree),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(personality),
	SCMP_SYS(acct),
};

int role_seccomp_api(struct err *err)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	int rc = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; !rc && i < ARRAY_LEN(api_denied); i++)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), api_denied[i], 0);
	/* A new process is a clone without CLONE_THREAD; clone3 hides its flags from a filter. */
	if (!rc)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (!rc)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!rc)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	if (rc)
		return err_errno(err, ERR_INTERNAL, -rc, "load the seccomp filter");
	return 0;
}
