/*
 * net_nft.c - loading the two tables through the nft program, when a router is made or adopted.
 *
 * The texts are share/caisson.nft and share/caisson-uplink.nft, built into the program so that it
 * always loads the ones it was tested with. A table that is already there with the same text is
 * left alone; another text replaces it in one transaction which carries the elements over, so
 * running sandboxes keep their connections across an upgrade. (libnftables is GPL-2-only in
 * parts, so it is not linked.)
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/path.h"

#define TEXT_MAX (4u << 20) /* elements of thousands of leases included */
#define SUM_FILE "table"

/* The files are read by the assembler (make adds the dependency in mk/net.mk). */
#define TEXT_EMBED(name, file)                                                                     \
	__asm__(".section .rodata\n"                                                               \
		".global " #name "\n" #name ":\n"                                                  \
		".incbin \"" file "\"\n"                                                           \
		".byte 0\n"                                                                        \
		".previous\n");                                                                    \
	extern const char name[]

TEXT_EMBED(net_nft_router_text, "share/caisson.nft");
TEXT_EMBED(net_nft_outside_text, "share/caisson-uplink.nft");

struct var {
	const char *name, *value;
};

/* text with every @name@ replaced. */
static int text_fill(struct buf *out, const char *text, const struct var *var, size_t nvars,
		     struct err *err)
{
	while (*text) {
		const char *at = strchr(text, '@');
		size_t i, len = 0;

		if (!at)
			return buf_adds(out, text, err);
		if (buf_add(out, text, (size_t)(at - text), err) < 0)
			return -1;
		for (i = 0; i < nvars; i++) {
			len = strlen(var[i].name);
			if (!strncmp(at + 1, var[i].name, len) && at[1 + len] == '@')
				break;
		}
		if (buf_adds(out, i < nvars ? var[i].value : "@", err) < 0)
			return -1;
		text = at + (i < nvars ? len + 2 : 1);
	}
	return 0;
}

static int memfd_text(const char *name, const char *text, size_t len, struct err *err)
{
	auto_close int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd < 0 || (len && write(fd, text, len) != (ssize_t)len) || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, ERR_NOMEM, errno, "memory file for nft");
	return TAKE_FD(fd);
}

static int nft_spawn(int in, int out, pid_t *ret, struct err *err)
{
	char *const argv[] = {"nft", "-f", "-", NULL};
	char *const envp[] = {"PATH=/usr/sbin:/sbin:/usr/bin:/bin", "LC_ALL=C", NULL};
	static const char *const path[] = {"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"};
	posix_spawn_file_actions_t fa;
	int e = ENOENT;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, in, 0);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawn_file_actions_adddup2(&fa, out, 2);
	for (size_t i = 0; i < ARRAY_LEN(path) && e == ENOENT; i++)
		e = posix_spawn(ret, path[i], &fa, NULL, argv, envp);
	posix_spawn_file_actions_destroy(&fa);
	if (e)
		return err_errno(err, ERR_INTERNAL, e, "run nft (package nftables)");
	return 0;
}

/* Runs on a thread that is in the namespace meant. */
static int nft_run(void *arg, struct err *err)
{
	const struct buf *text = arg;
	char say[256] = "";
	auto_close int in = memfd_text("nft-in", text->data, text->len, err);
	auto_close int out = memfd_text("nft-out", NULL, 0, err);
	int status = 0;
	ssize_t got;
	pid_t pid;

	if (in < 0 || out < 0 || nft_spawn(in, out, &pid, err) < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, ERR_INTERNAL, errno, "wait for nft");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	got = pread(out, say, sizeof(say) - 1, 0);
	say[got > 0 ? got : 0] = '\0';
	for (char *p = say; *p; p++)
		if (!isprint((unsigned char)*p))
			*p = ' ';
	return err_set(err, ERR_INTERNAL, "nft refused the table: %s", say);
}

/* One CIDR of the operator's list into the line of its family. */
static int range_add(const char *item, struct buf line[2], struct err *err)
{
	char text[64];
	unsigned char ip[16];
	char *slash, *end;
	unsigned long prefix;
	bool six = strchr(item, ':') != NULL;

	if ((size_t)snprintf(text, sizeof(text), "%s", item) >= sizeof(text))
		return err_set(err, ERR_INVALID, "allow-ranges: entry too long");
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	errno = 0;
	prefix = slash ? strtoul(slash, &end, 10) : (six ? 128 : 32);
	if (slash && (errno || *end || !isdigit((unsigned char)*slash)))
		prefix = 999;
	if (inet_pton(six ? AF_INET6 : AF_INET, text, ip) != 1 || prefix > (six ? 128 : 32))
		return err_set(err, ERR_INVALID, "allow-ranges: \"%s\" is not an address range",
			       item);
	return buf_addf(&line[six], err, "%s%s/%lu", line[six].len ? ", " : "elements = { ", text,
			prefix);
}

/* "10.1.0.0/16,fd00::/8" to one "elements = {…}" line a family, or "" */
static int ranges_lines(const char *list, struct buf line[2], struct err *err)
{
	auto_free char *copy = strdup(list ? list : "");
	char *rest = copy, *item;

	if (!copy)
		return err_set(err, ERR_NOMEM, "out of memory");
	while ((item = strsep(&rest, ", \t")))
		if (*item && range_add(item, line, err) < 0)
			return -1;
	for (int i = 0; i < 2; i++)
		if (line[i].len && buf_adds(&line[i], " }", err) < 0)
			return -1;
	return 0;
}

static int router_text(const struct net *n, struct buf *out, struct err *err)
{
	auto_buf struct buf four = BUF_INIT(TEXT_MAX), six = BUF_INIT(TEXT_MAX);
	struct buf line[2] = {BUF_INIT(TEXT_MAX), BUF_INIT(TEXT_MAX)};
	char port[8];
	int r = ranges_lines(n->allow_ranges, line, err);

	four = line[0];
	six = line[1];
	if (r < 0)
		return -1;
	snprintf(port, sizeof(port), "%d", NET_REFUSE_PORT);
	const struct var var[] = {
		{"allow4", buf_str(&four)},
		{"allow6", buf_str(&six)},
		{"resolver4", NET_RESOLVER4},
		{"refuse_port", port},
	};
	return text_fill(out, net_nft_router_text, var, ARRAY_LEN(var), err);
}

static int elements_text(struct net *n, struct buf *out, const uint32_t *slot, size_t nslots,
			 struct err *err)
{
	char ip4[INET_ADDRSTRLEN], ip6[INET6_ADDRSTRLEN];
	struct net_ids ids;

	for (size_t i = 0; i < nslots; i++) {
		uint8_t *m = ids.mac_box;

		net_ids(n, slot[i], &ids);
		inet_ntop(AF_INET, &ids.ip4, ip4, sizeof(ip4));
		inet_ntop(AF_INET6, &ids.ip6, ip6, sizeof(ip6));
		if (buf_addf(out, err,
			     "add element inet caisson gen { %u : 0x%x }\n"
			     "add element inet caisson known4 "
			     "{ %u . %02x:%02x:%02x:%02x:%02x:%02x . %s }\n",
			     ids.ifindex, ids.ifindex, ids.ifindex, m[0], m[1], m[2], m[3], m[4],
			     m[5], ip4) < 0)
			return -1;
		if (n->v6 && buf_addf(out, err,
				      "add element inet caisson known6 "
				      "{ %u . %02x:%02x:%02x:%02x:%02x:%02x . %s }\n",
				      ids.ifindex, m[0], m[1], m[2], m[3], m[4], m[5], ip6) < 0)
			return -1;
	}
	return 0;
}

/* The new table over the old one: elements of living leases and what is open move along. */
static int router_replace(struct net *n, struct buf *text, struct err *err)
{
	auto_nl struct nl_sock rt = NL_SOCK_INIT;
	auto_free uint32_t *slot = NULL;
	auto_free uint32_t *open = NULL;
	size_t nslots = 0, nopen = 0;

	if (net_ns_socket(n->router, NETLINK_ROUTE, &rt, err) < 0 ||
	    net_link_slots(n, &rt, &slot, &nslots, err) < 0)
		return -1;
	if (net_elem_dump(&n->nft, "open", &open, &nopen, NULL) < 0)
		nopen = 0; /* no table yet, or not one of ours: everything stays shut */
	if (elements_text(n, text, slot, nslots, err) < 0)
		return -1;
	for (size_t i = 0; i < nopen; i++)
		if (buf_addf(text, err, "add element inet caisson open { %u . 0x%x }\n", open[i],
			     open[i]) < 0)
			return -1;
	return net_in_ns(n->router, nft_run, text, err);
}

int net_nft_load_router(struct net *n, struct err *err)
{
	auto_buf struct buf text = BUF_INIT(TEXT_MAX), whole = BUF_INIT(TEXT_MAX);
	auto_buf struct buf old = BUF_INIT(TEXT_MAX);
	auto_close int dir = open(n->run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char *have;
	ssize_t got;

	if (dir < 0)
		return err_errno(err, ERR_INTERNAL, errno, "open %s", n->run_dir);
	if (router_text(n, &text, err) < 0)
		return -1;
	have = n->adopted_router ? buf_reserve(&old, text.len + 2, err) : NULL;
	got = have ? path_read_at(dir, SUM_FILE, have, text.len + 2, NULL) : -1;
	if (got == (ssize_t)text.len && !memcmp(have, text.data, text.len))
		return 0;
	/* "add" before "delete", or deleting a missing table would fail the transaction. */
	if (buf_adds(&whole, "add table inet caisson\ndelete table inet caisson\n", err) < 0 ||
	    buf_add(&whole, text.data, text.len, err) < 0)
		return -1;
	if (router_replace(n, &whole, err) < 0)
		return err_wrap(err, "router table");
	return path_write_at(dir, SUM_FILE, text.data, text.len, 0600, err);
}

int net_nft_load_outside(struct net *n, struct err *err)
{
	auto_buf struct buf text = BUF_INIT(TEXT_MAX);
	char table[32], uplink[IFNAMSIZ];

	snprintf(table, sizeof(table), "caisson_%s", n->instance);
	snprintf(uplink, sizeof(uplink), "cs%sup", n->instance);
	const struct var var[] = {{"table", table}, {"uplink", uplink}};
	if (buf_addf(&text, err, "add table inet %s\ndelete table inet %s\n", table, table) < 0 ||
	    text_fill(&text, net_nft_outside_text, var, ARRAY_LEN(var), err) < 0)
		return -1;
	if (net_in_ns(n->outside, nft_run, &text, err) < 0)
		return err_wrap(err, "uplink table");
	return 0;
}

void net_nft_remove_outside(struct net *n)
{
	auto_buf struct buf text = BUF_INIT(TEXT_MAX);

	if (buf_addf(&text, NULL, "add table inet caisson_%s\ndelete table inet caisson_%s\n",
		     n->instance, n->instance) == 0)
		net_in_ns(n->outside, nft_run, &text, NULL);
}
