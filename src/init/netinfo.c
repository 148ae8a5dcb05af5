/*
 * netinfo.c - what the kernel says of the sandbox's network: listening ports, bytes and packets.
 *
 * The tables are text in /proc/net, which every kernel has; inet_diag is a module that may be
 * missing. Nothing is kept: a line at a time is looked at and forgotten.
 */
#include "init/init.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_BYTES 512
#define STATE_LISTEN   0x0a
#define PORT_COUNT     65536

/* Returns -1 to stop reading. */
typedef int (*line_fn)(void *arg, char *line);

/* Lines of a table but its first head ones. A missing table (no IPv6, say) has none. */
static int table_read(const char *path, size_t head, line_fn fn, void *arg, struct err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	char raw[4096];
	size_t have = 0;
	ssize_t got;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, ERR_INTERNAL, errno, "open %s", path);
	while ((got = read(fd, raw + have, sizeof(raw) - 1 - have)) != 0) {
		char *line = raw, *end;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, ERR_INTERNAL, errno, "read %s", path);
		have += (size_t)got;
		raw[have] = '\0';
		for (; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			if (head)
				head--;
			else if (fn(arg, line) < 0)
				return 0;
		}
		have -= (size_t)(line - raw);
		memmove(raw, line, have);
		if (have > LINE_MAX_BYTES)
			return err_set(err, ERR_INTERNAL, "%s: a line of %zu bytes", path, have);
	}
	return 0;
}

/* "   0: 0100007F:1F90 00000000:0000 0A …". Listeners come first, which saves the rest. */
static int port_line(void *arg, char *line)
{
	uint8_t *seen = arg;
	char *p = strchr(line, ':'), *end;
	unsigned long port, state;

	p = p ? strchr(p + 1, ':') : NULL;
	if (!p)
		return 0;
	port = strtoul(p + 1, &end, 16);
	p = strchr(end, ':');
	p = p ? strchr(p, ' ') : NULL;
	state = p ? strtoul(p, NULL, 16) : 0;
	if (state != STATE_LISTEN)
		return -1;
	if (port < PORT_COUNT)
		seen[port / 8] |= (uint8_t)(1u << port % 8);
	return 0;
}

int ports_run(struct job *j, struct err *err)
{
	auto_free uint8_t *seen = calloc(PORT_COUNT / 8, 1);
	auto_free uint8_t *raw = NULL;
	struct wire_out o;
	uint32_t n = 0;

	if (!seen)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (table_read("/proc/net/tcp", 1, port_line, seen, err) < 0 ||
	    table_read("/proc/net/tcp6", 1, port_line, seen, err) < 0)
		return -1;
	for (size_t i = 0; i < PORT_COUNT; i++)
		n += seen[i / 8] >> i % 8 & 1;
	raw = malloc(4 + n * sizeof(uint16_t));
	if (!raw)
		return err_set(err, ERR_NOMEM, "out of memory");
	o = wire_out_on(raw, 4 + n * sizeof(uint16_t));
	wire_put_u32(&o, n);
	for (size_t i = 0; i < PORT_COUNT; i++)
		if (seen[i / 8] >> i % 8 & 1)
			wire_put_u16(&o, (uint16_t)i);
	return job_send(j, AGENT_OK, &o, NULL, 0, err);
}

struct traffic {
	uint64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
};

/* "  eth0: bytes packets errs drop fifo frame compressed multicast bytes packets …" */
static int device_line(void *arg, char *line)
{
	struct traffic *t = arg;
	char *p = strchr(line, ':');
	uint64_t value[10];

	line += strspn(line, " ");
	if (!p || strncmp(line, "lo:", 3) == 0)
		return 0;
	p++;
	for (size_t i = 0; i < ARRAY_LEN(value); i++)
		value[i] = strtoull(p, &p, 10);
	t->rx_bytes += value[0];
	t->rx_packets += value[1];
	t->tx_bytes += value[8];
	t->tx_packets += value[9];
	return 0;
}

int traffic_run(struct job *j, struct err *err)
{
	struct traffic t = {0};
	uint8_t raw[32];
	struct wire_out o = wire_out_on(raw, sizeof(raw));

	if (table_read("/proc/net/dev", 2, device_line, &t, err) < 0)
		return -1;
	wire_put_u64(&o, t.rx_bytes);
	wire_put_u64(&o, t.rx_packets);
	wire_put_u64(&o, t.tx_bytes);
	wire_put_u64(&o, t.tx_packets);
	return job_send(j, AGENT_OK, &o, NULL, 0, err);
}
