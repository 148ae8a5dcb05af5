/*
 * conn.h - a small HTTP/1.1 client for measuring: one kept-alive connection, no library whose own
 * time would be measured too.
 */
#ifndef CAISSON_BENCH_CONN_H
#define CAISSON_BENCH_CONN_H

#include <stddef.h>
#include <stdint.h>

#define CONN_REPLY_MAX (8u << 20)

struct conn {
	int fd;
	const char *host, *key;
	char *in;   /* head and body of the last reply */
	size_t len; /* bytes in in */
	char *body; /* NUL-terminated */
	size_t body_len;
	int status;
};

int conn_open(struct conn *c, const char *host, const char *port, const char *key);
void conn_close(struct conn *c);
/* body may be NULL. Returns the status, -1 when the connection broke. */
int conn_call(struct conn *c, const char *method, const char *path, const char *body);
/* Send size bytes of zeros as the body; the reply is read. */
int conn_put(struct conn *c, const char *method, const char *path, uint64_t size);
/* Read a body without keeping it. Returns its size, -1 on a broken connection or bad status. */
int64_t conn_drain(struct conn *c, const char *path);
/* Value of a string field of the last body, found by its first "key":"; out is "" when absent. */
void conn_field(const struct conn *c, const char *key, char *out, size_t cap);
int64_t now_us(void);

#endif
