/*
 * doctor.c - see caisson/doctor.h. One function a check, one row a function.
 */
#include "caisson/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/path.h"
#include "base/sys.h"
#include "box/cgroup.h"
#include "box/doctor_try.h"

#define DOCTOR_TEXT	  512
#define DOCTOR_NOFILE_LOW 65536
#define DOCTOR_PIDS_LOW	  65536
#define DOCTOR_UID_FIRST  0x70000000ull
#define DOCTOR_UID_COUNT  (128ull * 256 * 65536)

enum verdict { OK, WARN, FAIL };

struct check {
	const struct doctor_config *cfg;
	char what[DOCTOR_TEXT]; /* what was found */
	char mend[DOCTOR_TEXT]; /* what to do; "" when fine */
};

static void say(char out[DOCTOR_TEXT], const char *fmt, ...) PRINTF_LIKE(2, 3);
static void say(char out[DOCTOR_TEXT], const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(out, DOCTOR_TEXT, fmt, ap);
	va_end(ap);
}

static enum verdict check_root(struct check *c)
{
	static const int need[] = {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SETUID,	   CAP_SETGID,
				   CAP_CHOWN,	  CAP_MKNOD,	 CAP_DAC_OVERRIDE, CAP_FOWNER,
				   CAP_SETPCAP,	  CAP_KILL};

	say(c->what, "uid %u with the capabilities it needs", geteuid());
	say(c->mend, "start it as root (sudo)");
	if (geteuid() != 0) {
		say(c->what, "uid %u is not root", geteuid());
		return FAIL;
	}
	for (size_t i = 0; i < ARRAY_LEN(need); i++) {
		if (prctl(PR_CAPBSET_READ, need[i]) == 1)
			continue;
		say(c->what, "capability %d is missing", need[i]);
		say(c->mend, "run it outside of a restricted container");
		return FAIL;
	}
	return OK;
}

static enum verdict check_kernel(struct check *c)
{
	struct utsname u;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC};
	auto_close int fs = sys_fsopen("tmpfs", FSOPEN_CLOEXEC);
	auto_close int tree = sys_open_tree(AT_FDCWD, "/", OPEN_TREE_CLOEXEC);
	auto_close int how2 = sys_openat2(AT_FDCWD, "/", &how);
	auto_close int pidfd = sys_pidfd_open(getpid(), 0);
	const struct {
		const char *name;
		bool have;
	} call[] = {{"fsopen", fs >= 0},
		    {"open_tree", tree >= 0},
		    {"openat2", how2 >= 0},
		    {"pidfd_open", pidfd >= 0},
		    {"close_range", sys_close_range(~0U - 1, ~0U, 0) == 0}};

	uname(&u);
	say(c->what, "Linux %s on %s", u.release, u.machine);
	for (size_t i = 0; i < ARRAY_LEN(call); i++) {
		if (call[i].have)
			continue;
		say(c->what, "Linux %s has no %s", u.release, call[i].name);
		say(c->mend, "Linux 6.1 or newer is needed (Debian 12, Ubuntu 24.04)");
		return FAIL;
	}
	return OK;
}

static enum verdict check_cgroups(struct check *c)
{
	char v1[CG_V1_MAX][CG_PATH_MAX];
	struct cg_host h;
	struct err err = {0};

	if (cg_probe(&h, v1, &err) < 0) {
		say(c->what, "%s", err.msg);
		say(c->mend, "boot with systemd.unified_cgroup_hierarchy=1");
		return FAIL;
	}
	say(c->what, "%s, v2 at %s",
	    h.layout == CG_LAYOUT_V2 ? "pure v2" : "hybrid: limits by v1, life by v2", h.v2_mount);
	return OK;
}

static enum verdict check_namespaces(struct check *c)
{
	char v1[CG_V1_MAX][CG_PATH_MAX];
	struct cg_host h;
	struct err err = {0};

	if (cg_probe(&h, v1, NULL) < 0 || try_clone(h.v2_mount, &err) < 0) {
		say(c->what, "%s", err.msg[0] ? err.msg : "no cgroup to be born in");
		say(c->mend, "check sysctl user.max_user_namespaces and kernel.* hardening "
			     "of user namespaces");
		return FAIL;
	}
	say(c->what, "user, mount, pid, uts, ipc and cgroup namespaces in one clone3");
	return OK;
}

/* The data directory may not exist yet: its nearest parent is on the same disk. */
static void existing_dir(const char *path, char out[DOCTOR_TEXT])
{
	struct stat st;

	say(out, "%s", path);
	while (strlen(out) > 1 && (stat(out, &st) < 0 || !S_ISDIR(st.st_mode))) {
		char *slash = strrchr(out, '/');

		if (!slash)
			break;
		slash[slash == out ? 1 : 0] = '\0';
	}
}

static enum verdict check_overlay(struct check *c)
{
	char dir[DOCTOR_TEXT];
	struct err err = {0};
	bool by_fd = false;

	existing_dir(c->cfg->data_dir, dir);
	if (try_overlay(dir, &by_fd, &err) < 0) {
		say(c->what, "%s: %s", dir, err.msg);
		say(c->mend, "put --data-dir on ext4, xfs or btrfs of Linux 6.1 or newer");
		return FAIL;
	}
	say(c->what, "idmapped overlay works in %s, layers by %s", dir,
	    by_fd ? "descriptor" : "path");
	return OK;
}

static enum verdict check_devices(struct check *c)
{
	struct err err = {0};

	if (try_device(&err) < 0) {
		say(c->what, "%s", err.msg);
		say(c->mend, "the daemon's own device cgroup must allow null, zero, full, random, "
			     "urandom and tty");
		return FAIL;
	}
	say(c->what, "device nodes in a file system of our own open");
	return OK;
}

static enum verdict check_nft(struct check *c)
{
	struct err err = {0};

	if (try_nft(&err) < 0) {
		say(c->what, "%s", err.msg);
		say(c->mend, "modprobe nf_tables nf_nat nft_chain_nat veth");
		return FAIL;
	}
	say(c->what, "nf_tables answers in a new network namespace");
	return OK;
}

static enum verdict check_seccomp(struct check *c)
{
	uint32_t act = 0x00050000u; /* SECCOMP_RET_ERRNO */

	if (syscall(SYS_seccomp, 2 /* SECCOMP_GET_ACTION_AVAIL */, 0, &act) < 0) {
		say(c->what, "filters are not available");
		say(c->mend, "the kernel needs CONFIG_SECCOMP_FILTER");
		return FAIL;
	}
	say(c->what, "filters with errno answers");
	return OK;
}

/* Our ids must exist here (we may be in a namespace ourselves) and belong to nobody else. */
static enum verdict check_uids(struct check *c)
{
	unsigned long long inside = 0, outside = 0, count = 0;
	char text[4096] = "";

	say(c->what, "%llu to %llu", DOCTOR_UID_FIRST, DOCTOR_UID_FIRST + DOCTOR_UID_COUNT - 1);
	path_read_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text), NULL);
	if (sscanf(text, "%llu %llu %llu", &inside, &outside, &count) != 3 || inside > 0 ||
	    count < DOCTOR_UID_FIRST + DOCTOR_UID_COUNT) {
		say(c->what, "user ids from %llu on do not exist here", DOCTOR_UID_FIRST);
		say(c->mend, "run it in the initial user namespace");
		return FAIL;
	}
	path_read_at(AT_FDCWD, "/etc/subuid", text, sizeof(text), NULL);
	for (char *p = text; (p = strchr(p, ':')); p = strchr(p, '\n') ? strchr(p, '\n') : "") {
		if (sscanf(p, ":%llu:%llu", &outside, &count) != 2)
			continue;
		if (outside + count <= DOCTOR_UID_FIRST ||
		    outside >= DOCTOR_UID_FIRST + DOCTOR_UID_COUNT)
			continue;
		say(c->mend, "/etc/subuid gives ids from %llu on to somebody: move that range",
		    outside);
		return WARN;
	}
	return OK;
}

static enum verdict check_disk(struct check *c)
{
	char dir[DOCTOR_TEXT];
	struct statvfs st;
	unsigned long long free_mib;

	existing_dir(c->cfg->data_dir, dir);
	if (statvfs(dir, &st) < 0) {
		say(c->what, "%s: %s", dir, strerror(errno));
		say(c->mend, "choose another --data-dir");
		return FAIL;
	}
	free_mib = (unsigned long long)st.f_bavail * st.f_frsize >> 20;
	say(c->what, "%llu MiB and %llu inodes free in %s", free_mib,
	    (unsigned long long)st.f_favail, dir);
	say(c->mend, "free some space, or lower --disk-low");
	if (st.f_flag & ST_RDONLY || free_mib == 0)
		return FAIL;
	/* Creates will be refused, but what exists must still be startable (C15). */
	if (free_mib < c->cfg->disk_low >> 20 || (st.f_files && st.f_favail < 10000))
		return WARN;
	return OK;
}

static enum verdict check_forwarding(struct check *c)
{
	char v4[8] = "", v6[8] = "";

	if (c->cfg->uplink_netns) {
		say(c->what, "the outside is the namespace %s", c->cfg->uplink_netns);
		return OK;
	}
	path_read_at(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", v4, sizeof(v4), NULL);
	path_read_at(AT_FDCWD, "/proc/sys/net/ipv6/conf/all/forwarding", v6, sizeof(v6), NULL);
	say(c->what, "IPv4 %s, IPv6 %s", v4[0] == '1' ? "on" : "off", v6[0] == '1' ? "on" : "off");
	say(c->mend, "sandboxes reach no other machine until: sysctl -w net.ipv4.ip_forward=1");
	return v4[0] == '1' ? OK : WARN;
}

static enum verdict check_limits(struct check *c)
{
	char text[32] = "";
	struct rlimit lim = {0, 0};
	unsigned long pids;

	getrlimit(RLIMIT_NOFILE, &lim);
	path_read_at(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text), NULL);
	pids = strtoul(text, NULL, 10);
	say(c->what, "%llu open files, %lu processes", (unsigned long long)lim.rlim_max, pids);
	say(c->mend, "for hundreds of sandboxes: LimitNOFILE=1048576, sysctl -w "
		     "kernel.pid_max=4194304");
	return lim.rlim_max < DOCTOR_NOFILE_LOW || pids < DOCTOR_PIDS_LOW ? WARN : OK;
}

static enum verdict check_log(struct check *c)
{
	auto_close int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	say(c->what, "the kernel log names the victims of memory limits");
	if (fd >= 0)
		return OK;
	say(c->what, "/dev/kmsg: %s", strerror(errno));
	say(c->mend, "without it out-of-memory events name no victim");
	return WARN;
}

static enum verdict check_image(struct check *c)
{
	if (!c->cfg->default_image) {
		say(c->what, "none is set");
		say(c->mend, "make image, then --default-image build/image/default.tar.zst; or "
			     "import one");
		return WARN;
	}
	say(c->what, "%s", c->cfg->default_image);
	if (access(c->cfg->default_image, R_OK) == 0)
		return OK;
	say(c->what, "%s: %s", c->cfg->default_image, strerror(errno));
	say(c->mend, "make image");
	return FAIL;
}

static enum verdict check_records(struct check *c)
{
	struct err err = {0};

	say(c->what, "of %s can be read", c->cfg->data_dir);
	if (!c->cfg->records || c->cfg->records(c->cfg->arg, &err) == 0)
		return OK;
	say(c->what, "%s", err.msg);
	say(c->mend, "put a sound copy of the file in its place, or move it away: then its "
		     "sandboxes are lost");
	return FAIL;
}

static const struct {
	const char *name;
	enum verdict (*fn)(struct check *c);
} checks[] = {
	{"root", check_root},
	{"kernel", check_kernel},
	{"cgroups", check_cgroups},
	{"namespaces", check_namespaces},
	{"overlay", check_overlay},
	{"devices", check_devices},
	{"seccomp", check_seccomp},
	{"nft", check_nft},
	{"uids", check_uids},
	{"disk", check_disk},
	{"forwarding", check_forwarding},
	{"limits", check_limits},
	{"kernel log", check_log},
	{"image", check_image},
	{"records", check_records},
};

int doctor_run(const struct doctor_config *cfg, FILE *out)
{
	static const char *const word[] = {[OK] = "ok", [WARN] = "warn", [FAIL] = "FAIL"};
	int bad = 0;

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		struct check c = {.cfg = cfg};
		enum verdict v;

		/* Forked checks must not repeat what is still buffered. */
		fflush(out);
		v = checks[i].fn(&c);
		bad |= v == FAIL;
		fprintf(out, "%-4s  %-10s  %s\n", word[v], checks[i].name, c.what);
		if (v != OK)
			fprintf(out, "      %-10s  -> %s\n", "", c.mend);
	}
	return bad;
}
