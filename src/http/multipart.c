/*
 * multipart.c - multipart/form-data as a stream (RFC 7578), in memory of a fixed size.
 *
 *   PREAMBLE ──delimiter──► AFTER ──CRLF──► HEAD ──empty line──► DATA ──delimiter──► AFTER
 *                             └──"--"──► EPILOGUE (ignored)
 *
 * The delimiter is CRLF "--" boundary. CR occurs in it only at its start, so after a failed match
 * the held bytes are data and the search goes on with the byte at hand: no table is needed.
 */
#include "caisson/http.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BOUNDARY_MAX  70
#define DELIMITER_MAX (4 + BOUNDARY_MAX)
#define HEAD_MAX      8192 /* bytes of a part's header block */
#define PADDING_MAX   128  /* blanks between a boundary and its line end */
#define PARTS_MAX     20000
#define NAME_MAX_LEN  4096

enum mp_state { MP_PREAMBLE, MP_AFTER, MP_HEAD, MP_DATA, MP_EPILOGUE, MP_BROKEN };

struct http_multipart {
	const struct http_multipart_ops *ops;
	void *arg;
	enum mp_state state;
	char delimiter[DELIMITER_MAX + 1];
	size_t delimiter_len;
	size_t matched;	 /* bytes of the delimiter seen and held back */
	struct buf head; /* header block so far */
	size_t padding;	 /* bytes seen in AFTER */
	char after;	 /* first of "--" or of CRLF */
	size_t parts;
	char name[NAME_MAX_LEN + 1], filename[NAME_MAX_LEN + 1], type[256];
};

/*
 * The text of a parameter at p (past its '='), quotes and backslashes undone, into out unless
 * that is NULL. Returns where it ends, NULL when it is too long.
 */
static const char *param_text(const char *p, char *out, size_t cap)
{
	bool quoted = *p == '"';
	size_t n = 0;

	for (p += quoted; *p && (quoted ? *p != '"' : !strchr("; \t", *p)); p++) {
		if (quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
			p++;
		if (out && n + 1 >= cap)
			return NULL;
		if (out)
			out[n++] = *p;
	}
	if (out)
		out[n] = '\0';
	return p;
}

/*
 * The value of parameter key in a header value such as `form-data; name="a"; filename=b`.
 * Returns its length, -1 when absent, -2 when too long.
 */
static int param_get(const char *value, const char *key, char *out, size_t cap)
{
	size_t key_len = strlen(key);
	const char *p = strchr(value, ';');

	while (p) {
		bool hit;

		p += 1 + strspn(p + 1, " \t");
		hit = strncasecmp(p, key, key_len) == 0 && p[key_len] == '=';
		p += strcspn(p, "=;");
		if (*p == '=')
			p = param_text(p + 1, hit ? out : NULL, cap);
		if (hit)
			return p ? (int)strlen(out) : -2;
		p = strchr(p, ';');
	}
	return -1;
}

struct http_multipart *http_multipart_new(const char *content_type,
					  const struct http_multipart_ops *ops, void *arg,
					  struct err *err)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789'()+_,-./:=? ";
	struct http_multipart *m;
	char boundary[BOUNDARY_MAX + 1];
	int n = -1;

	if (content_type && strncasecmp(content_type, "multipart/form-data", 19) == 0)
		n = param_get(content_type, "boundary", boundary, sizeof(boundary));
	if (n <= 0 || boundary[strspn(boundary, good)] || boundary[n - 1] == ' ') {
		err_set(err, ERR_INVALID,
			"Content-Type: must be multipart/form-data with a boundary");
		return NULL;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		err_set(err, ERR_NOMEM, "out of memory");
		return NULL;
	}
	m->ops = ops;
	m->arg = arg;
	m->delimiter_len =
		(size_t)snprintf(m->delimiter, sizeof(m->delimiter), "\r\n--%s", boundary);
	/* The first boundary may stand at the very start, as if a line had ended before it. */
	m->matched = 2;
	buf_init(&m->head, HEAD_MAX);
	return m;
}

void http_multipart_free(struct http_multipart *m)
{
	if (!m)
		return;
	buf_done(&m->head);
	free(m);
}

static int hex_value(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* filename*=UTF-8''caf%C3%A9 (RFC 5987): decode in place; false when it is not that. */
static bool ext_value_decode(char *s)
{
	char *p = strchr(s, '\''), *out = s;

	if (strncasecmp(s, "utf-8'", 6) != 0)
		return false;
	p = strchr(p + 1, '\'');
	if (!p)
		return false;
	for (p++; *p; p++) {
		int high, low;

		if (*p != '%') {
			*out++ = *p;
			continue;
		}
		high = hex_value(p[1]);
		low = high < 0 ? -1 : hex_value(p[2]);
		if (low < 0 || high + low == 0)
			return false;
		*out++ = (char)(high << 4 | low);
		p += 2;
	}
	*out = '\0';
	return true;
}

static int disposition_take(struct http_multipart *m, const char *value, struct err *err)
{
	char ext[NAME_MAX_LEN + 1];
	int name, file, star;

	if (strncasecmp(value, "form-data", 9) != 0)
		return err_set(err, ERR_INVALID, "multipart: a part must be form-data");
	name = param_get(value, "name", m->name, sizeof(m->name));
	file = param_get(value, "filename", m->filename, sizeof(m->filename));
	star = param_get(value, "filename*", ext, sizeof(ext));
	if (name == -2 || file == -2 || star == -2)
		return err_set(err, ERR_INVALID, "multipart: name of a part: at most %d bytes",
			       NAME_MAX_LEN);
	if (star > 0 && ext_value_decode(ext))
		snprintf(m->filename, sizeof(m->filename), "%s", ext);
	return 0;
}

static int field_take(struct http_multipart *m, char *line, struct err *err)
{
	char *value = strchr(line, ':');

	if (!value)
		return err_set(err, ERR_INVALID, "multipart: malformed header of a part");
	*value++ = '\0';
	value += strspn(value, " \t");
	if (strcasecmp(line, "Content-Disposition") == 0)
		return disposition_take(m, value, err);
	if (strcasecmp(line, "Content-Type") == 0)
		snprintf(m->type, sizeof(m->type), "%.255s", value);
	if (strcasecmp(line, "Content-Transfer-Encoding") == 0 &&
	    strcasecmp(value, "binary") != 0 && strcasecmp(value, "8bit") != 0 &&
	    strcasecmp(value, "7bit") != 0)
		return err_set(err, ERR_INVALID, "multipart: parts must not be encoded");
	return 0;
}

/* The header block is whole: read it and begin the part. */
static int head_finish(struct http_multipart *m, struct err *err)
{
	char *line = m->head.data;

	m->name[0] = m->filename[0] = m->type[0] = '\0';
	if (memchr(m->head.data, '\0', m->head.len))
		return err_set(err, ERR_INVALID, "multipart: NUL byte in a header of a part");
	while (line && *line) {
		char *end = strstr(line, "\r\n");

		if (end)
			*end = '\0';
		if (*line && field_take(m, line, err) < 0)
			return -1;
		line = end ? end + 2 : NULL;
	}
	buf_clear(&m->head);
	if (!m->name[0])
		return err_set(err, ERR_INVALID, "multipart: a part without a name");
	if (++m->parts > PARTS_MAX)
		return err_set(err, ERR_TOO_LARGE, "multipart: at most %d parts", PARTS_MAX);
	m->state = MP_DATA;
	m->matched = 0;
	return m->ops->part(m->arg, m->name, m->filename, m->type, err);
}

static int head_feed(struct http_multipart *m, char c, struct err *err)
{
	struct buf *h = &m->head;

	if (buf_add(h, &c, 1, NULL) < 0)
		return err_set(err, ERR_TOO_LARGE, "multipart: header of a part: at most %d bytes",
			       HEAD_MAX);
	if (c != '\n')
		return 0;
	/* An empty line ends it, also as the first line. */
	if (h->len == 2 ? memcmp(h->data, "\r\n", 2) == 0
			: h->len >= 4 && memcmp(h->data + h->len - 4, "\r\n\r\n", 4) == 0)
		return head_finish(m, err);
	return 0;
}

static int after_feed(struct http_multipart *m, char c, struct err *err)
{
	if (m->after == '-' && c == '-') {
		m->state = MP_EPILOGUE;
		return 0;
	}
	if (m->after == '\r' && c == '\n') {
		m->state = MP_HEAD;
		return 0;
	}
	if (m->after || ++m->padding > PADDING_MAX)
		return err_set(err, ERR_INVALID, "multipart: malformed boundary line");
	if (c == '\r' || (c == '-' && m->padding == 1))
		m->after = c;
	else if (c != ' ' && c != '\t')
		return err_set(err, ERR_INVALID, "multipart: malformed boundary line");
	return 0;
}

static int data_emit(struct http_multipart *m, const char *p, size_t n, struct err *err)
{
	if (!n || m->state != MP_DATA)
		return 0;
	return m->ops->data(m->arg, p, n, err);
}

static int delimiter_found(struct http_multipart *m, struct err *err)
{
	bool in_part = m->state == MP_DATA;

	m->state = MP_AFTER;
	m->after = '\0';
	m->padding = 0;
	m->matched = 0;
	return in_part ? m->ops->part_end(m->arg, err) : 0;
}

/* Data or preamble: look for the delimiter. Returns the bytes used or -1. */
static ssize_t data_feed(struct http_multipart *m, const char *p, size_t n, struct err *err)
{
	size_t i = 0;

	while (i < n && m->matched) {
		if (p[i] == m->delimiter[m->matched]) {
			i++;
			if (++m->matched < m->delimiter_len)
				continue;
			return delimiter_found(m, err) < 0 ? -1 : (ssize_t)i;
		}
		/* What was held back is data after all. */
		if (data_emit(m, m->delimiter, m->matched, err) < 0)
			return -1;
		m->matched = 0;
	}
	while (i < n) {
		const char *cr = memchr(p + i, '\r', n - i);
		size_t plain = cr ? (size_t)(cr - p) : n, k = 0;

		if (!cr)
			return data_emit(m, p + i, n - i, err) < 0 ? -1 : (ssize_t)n;
		while (plain + k < n && k < m->delimiter_len && cr[k] == m->delimiter[k])
			k++;
		if (k < m->delimiter_len && plain + k < n) {
			/* No delimiter here; the next CR may begin one. */
			const char *next = memchr(cr + 1, '\r', n - plain - 1);
			size_t upto = next ? (size_t)(next - p) : n;

			if (data_emit(m, p + i, upto - i, err) < 0)
				return -1;
			i = upto;
			continue;
		}
		if (data_emit(m, p + i, plain - i, err) < 0)
			return -1;
		m->matched = k;
		if (k < m->delimiter_len)
			return (ssize_t)n;
		return delimiter_found(m, err) < 0 ? -1 : (ssize_t)(plain + k);
	}
	return (ssize_t)n;
}

int http_multipart_feed(struct http_multipart *m, const void *bytes, size_t n, struct err *err)
{
	const char *p = bytes, *end = p + n;

	while (p < end) {
		ssize_t used = 1;

		switch (m->state) {
		case MP_PREAMBLE:
		case MP_DATA:
			used = data_feed(m, p, (size_t)(end - p), err);
			break;
		case MP_AFTER:
			used = after_feed(m, *p, err) < 0 ? -1 : 1;
			break;
		case MP_HEAD:
			used = head_feed(m, *p, err) < 0 ? -1 : 1;
			break;
		case MP_EPILOGUE:
			return 0;
		case MP_BROKEN:
			return err_set(err, ERR_INVALID, "multipart: fed after an error");
		}
		if (used < 0) {
			m->state = MP_BROKEN;
			return -1;
		}
		p += used;
	}
	return 0;
}

int http_multipart_end(struct http_multipart *m, struct err *err)
{
	if (m->state == MP_EPILOGUE)
		return 0;
	return err_set(err, ERR_INVALID, "multipart: the body ends before its last boundary");
}
