/*
 * file_names.c - names of files in headers (RFC 6266, RFC 5987) and modes in text. See toolbox.h.
 */
#include "api/daytona/toolbox.h"

#include <string.h>

#include "base/utf8.h"

static int add_percent(struct buf *b, unsigned char c, struct err *err)
{
	return buf_addf(b, err, "%%%02X", c);
}

/* attr-char of RFC 5987. */
static bool is_attr_char(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c && strchr("!#$&+-.^_`|~", c));
}

/* Inside quotes: a quote or backslash gets a backslash, what no header may hold a percent form. */
static int add_quoted(struct buf *b, unsigned char c, bool raw, struct err *err)
{
	if (c == '"' || c == '\\')
		return buf_addf(b, err, "\\%c", c);
	if (c < 0x20 || c == 0x7f)
		return add_percent(b, c, err);
	if (c < 0x80 || raw)
		return buf_add(b, &c, 1, err);
	return (c & 0xc0) == 0x80 ? 0 : buf_adds(b, "_", err);
}

int disposition_add(struct buf *b, const char *name, bool raw, struct err *err)
{
	const unsigned char *s = (const unsigned char *)name;

	if (!utf8_valid(name, strlen(name)))
		raw = false;
	if (buf_adds(b, "; filename=\"", err) < 0)
		return -1;
	for (size_t i = 0; s[i]; i++)
		if (add_quoted(b, s[i], raw, err) < 0)
			return -1;
	if (buf_adds(b, "\"; filename*=UTF-8''", err) < 0)
		return -1;
	for (size_t i = 0; s[i]; i++)
		if ((is_attr_char(s[i]) ? buf_add(b, &s[i], 1, err) : add_percent(b, s[i], err)) <
		    0)
			return -1;
	return 0;
}

int mode_parse(const char *field, const char *text, mode_t *ret, struct err *err)
{
	unsigned v = 0;

	if (!*text || strlen(text) > 5 || text[strspn(text, "01234567")])
		return err_set(err, ERR_INVALID, "%s: must be octal digits such as 0755", field);
	for (; *text; text++)
		v = v * 8 + (unsigned)(*text - '0');
	if (v > 07777)
		return err_set(err, ERR_INVALID, "%s: must be octal digits from 0 to 7777", field);
	*ret = v;
	return 0;
}
