/*
 * files.h - the /dev of a box, a small tmpfs built detached, and the texts of the generated files
 * that are bound over the image's.
 *
 * Device nodes are made by the runner in a file system of the initial user namespace, so they
 * open inside, and no path of the image takes part (CVE-2025-31133, C25). The inside can't make
 * more of them: mknod of devices needs rights no box has.
 */
#ifndef CAISSON_BOX_FILES_H
#define CAISSON_BOX_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define HOST_CPUS_MAX 1024

/* What the host says of itself, read once; boxes see a cut of it. */
struct host_files {
	char *cpuinfo;		       /* text of /proc/cpuinfo */
	size_t cpu_end[HOST_CPUS_MAX]; /* where the block of each processor ends */
	unsigned cpus;
	uint64_t mem_total;
};

int host_files_open(struct host_files *f, struct err *err);
void host_files_close(struct host_files *f);

struct files_spec {
	uint64_t mem_bytes;
	uint32_t cpu_milli;
	const char *hostname, *ip4, *ip6, *resolver4;
};

/* What the child writes into a tmpfs of its own (child.h). */
struct files_text {
	char hosts[1024], hostname[80], resolv[256], meminfo[1536], online[24];
	const char *cpuinfo; /* a cut of the host's, borrowed */
	size_t cpuinfo_len;
};
void files_compose(const struct host_files *f, const struct files_spec *s, struct files_text *ret);

/* A detached /dev that belongs to the host's root; files_give_dev makes it a box's. */
int files_make_dev(struct err *err);
/* By an idmapped mount where tmpfs has them (Linux 6.3), else by changing each owner. */
int files_give_dev(int dev, int userns, uid_t base, struct err *err);
/* A detached mount of fs with up to a handful of options (key, value pairs, NULL-terminated). */
int files_fsmount(const char *fs, const char *const (*opt)[2], unsigned attrs, struct err *err);

#endif
