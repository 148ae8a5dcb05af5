/*
 * upper_mark.h - is an upper as on the day it was made? For upper.c alone.
 */
#ifndef CAISSON_BOX_UPPER_MARK_H
#define CAISSON_BOX_UPPER_MARK_H

#include <stdbool.h>
#include <sys/types.h>

/* What an upper that nobody wrote to looks like. */
struct upper_mark {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	nlink_t nlink;
	off_t size;
	int flags; /* of chattr */
	ssize_t xattrs;
};

int upper_mark_get(int fd, struct upper_mark *ret);
/*
 * box holds upper/ and work/ of a box that has ended, unmounted. True when nobody could tell them
 * from new ones; what the kernel itself left there is gone then.
 */
bool upper_is_new(int box, const struct upper_mark *fresh);

#endif
