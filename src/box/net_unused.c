/*
 * net_unused.c - may a released lease be given out again? Only when its sandbox never used it.
 *
 * Nothing is washed: a namespace counts as unused when all that it shows of its past still reads
 * as on the day it was made. Root inside has no rights over it (the host's user namespace owns
 * it), so addresses, routes and switches can't differ; what a process can leave behind are sockets
 * and packets, and each of those moves a counter of some file here, also over lo, also one that
 * was refused. So nobody outside knows the address from the last sandbox, and no late packet, flow
 * or element can be meant for it. One counter moves by itself: the router's own multicast news.
 */
#include "box/net_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNUSED_TEXT_MAX 16384
#define DEV_FIELDS	16

/* What is in one file; rx is how many packets eth0 has received. */
typedef bool (*unused_fn)(const char *text, const char *fresh, uint64_t *rx);

static bool text_same(const char *text, const char *fresh, uint64_t *rx)
{
	(void)rx;
	return strcmp(text, fresh) == 0;
}

static const char *line_end(const char *p)
{
	return p + strcspn(p, "\n");
}

/* "name: 16 numbers": received 0-7, sent 8-15. Of eth0 alone, received multicast may count. */
static bool dev_line(const char *p, bool eth0, uint64_t *rx)
{
	static const bool may_move[DEV_FIELDS] = {[0] = true, [1] = true, [7] = true};
	uint64_t v[DEV_FIELDS];
	char *end;

	for (int i = 0; i < DEV_FIELDS; i++) {
		v[i] = strtoull(p, &end, 10);
		if (end == p || (v[i] && !(eth0 && may_move[i])))
			return false;
		p = end;
	}
	if (eth0)
		*rx = v[1];
	return true;
}

static bool dev_unused(const char *text, const char *fresh, uint64_t *rx)
{
	const char *p = text;
	int found = 0;

	(void)fresh;
	for (int head = 0; head < 2 && *p; head++)
		p = line_end(p) + 1;
	for (; *p; p = *line_end(p) ? line_end(p) + 1 : line_end(p)) {
		const char *name = p + strspn(p, " "), *colon = strchr(name, ':');
		bool eth0 = strncmp(name, "eth0:", 5) == 0;

		if (!colon || (!eth0 && strncmp(name, "lo:", 3) != 0) ||
		    !dev_line(colon + 1, eth0, rx))
			return false;
		found++;
	}
	return found == 2;
}

/* The sum over all of the machine is in these too: only what counts this namespace is looked at. */
static bool sockstat_unused(const char *text, const char *fresh, uint64_t *rx)
{
	static const char *const own[] = {"used ", "inuse ", "tw ", "FRAG: inuse 0 memory "};

	(void)fresh;
	(void)rx;
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		const char *p = strstr(text, own[i]);

		if (!p)
			return false;
		for (; p; p = strstr(p + 1, own[i]))
			if (strtoull(p + strlen(own[i]), NULL, 10) != 0)
				return false;
	}
	return true;
}

/* The same packets that eth0 counts, and nothing that isn't multicast. */
static bool snmp6_unused(const char *text, const char *fresh, uint64_t *rx)
{
	static const struct {
		const char *name;
		bool packets;
	} moves[] = {{"Ip6InReceives", true},
		     {"Ip6InMcastPkts", true},
		     {"Ip6InNoECTPkts", true},
		     {"Ip6InOctets", false},
		     {"Ip6InMcastOctets", false}};

	(void)fresh;
	for (const char *p = text; *p; p = *line_end(p) ? line_end(p) + 1 : line_end(p)) {
		size_t n = strcspn(p, " \t"), i = 0;
		uint64_t v = strtoull(p + n, NULL, 10);

		while (i < ARRAY_LEN(moves) &&
		       (strlen(moves[i].name) != n || memcmp(p, moves[i].name, n) != 0))
			i++;
		if (i == ARRAY_LEN(moves) ? v != 0 : moves[i].packets && v != *rx)
			return false;
	}
	return true;
}

/*
 * sockstat is the first, since it alone gets better by waiting: some sockets live for a grace
 * period beyond their close. dev stands before snmp6, which compares with it. IPv6's files are
 * missing without IPv6.
 */
static const struct {
	const char *name;
	unused_fn unused;
	bool v6;
} file[NET_FRESH_FILES] = {
	{"sockstat", sockstat_unused, false}, {"dev", dev_unused, false},
	{"snmp", text_same, false},	      {"netstat", text_same, false},
	{"igmp", text_same, false},	      {"sockstat6", text_same, true},
	{"snmp6", snmp6_unused, true},	      {"ip6_flowlabel", text_same, true},
};

/* Of the namespace this thread is in. */
static bool file_read(int dir, const char *name, char *out)
{
	auto_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got;

	while (fd >= 0 && (got = read(fd, out + len, UNUSED_TEXT_MAX - len)) > 0)
		len += (size_t)got;
	if (fd < 0 || got < 0 || len == 0 || len >= UNUSED_TEXT_MAX)
		return false;
	out[len] = '\0';
	return true;
}

int net_fresh_read(const struct net *n, int procnet, struct net_fresh *ret)
{
	auto_free char *text = malloc(UNUSED_TEXT_MAX + 1);

	for (size_t i = 0; i < NET_FRESH_FILES; i++) {
		if (file[i].v6 && !n->v6)
			continue;
		if (text && file_read(procnet, file[i].name, text))
			ret->text[i] = strdup(text);
		if (!ret->text[i])
			return -1;
	}
	ret->whole = true;
	return 0;
}

void net_fresh_done(struct net_fresh *f)
{
	for (size_t i = 0; i < NET_FRESH_FILES; i++)
		free(f->text[i]);
	*f = (struct net_fresh){.whole = false};
}

enum net_use net_use_of(const struct net *n, const struct net_fresh *fresh, int procnet)
{
	auto_free char *text = malloc(UNUSED_TEXT_MAX + 1);
	uint64_t rx = 0;

	for (size_t i = 0; i < NET_FRESH_FILES; i++) {
		if (file[i].v6 && !n->v6)
			continue;
		if (!text || !file_read(procnet, file[i].name, text))
			return NET_USED;
		if (!file[i].unused(text, fresh->text[i], &rx))
			return i == 0 ? NET_SOCKETS : NET_USED;
	}
	return n->v6 || rx == 0 ? NET_UNUSED : NET_USED;
}
