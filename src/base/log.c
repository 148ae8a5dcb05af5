/*
 * log.c - see log.h. A line is built on the stack and written with one write(2), so lines of
 * several threads and processes do not mix. The caller's errno is kept: a cleanup path logs
 * between a failing call and the return that reports it.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

#define LOG_LINE_MAX 2048

static struct {
	char process[16];
	enum log_level min;
	bool json;
} log_config = {.process = "caisson", .min = LOG_INFO};

static _Thread_local char log_reqid[LOG_REQID_LEN];

static const char *const level_name[] = {
	[LOG_DEBUG] = "debug", [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error"};

void log_setup(const char *process, enum log_level min, bool json)
{
	snprintf(log_config.process, sizeof(log_config.process), "%s", process);
	log_config.min = min;
	log_config.json = json;
}

void log_set_request(const char *reqid)
{
	size_t n = 0;

	for (; reqid && reqid[n] && n < LOG_REQID_LEN - 1; n++) {
		unsigned char c = (unsigned char)reqid[n];

		log_reqid[n] = (c > 32 && c < 127 && c != '"' && c != '\\') ? (char)c : '_';
	}
	log_reqid[n] = '\0';
}

const char *log_request(void)
{
	return log_reqid;
}

/* C1 controls, and marks that turn the direction of or break a line on a terminal. */
static bool log_char_moves(const unsigned char *p, size_t len)
{
	if (len == 2)
		return p[0] == 0xc2 && p[1] < 0xa0;
	if (len != 3 || p[0] != 0xe2)
		return false;
	return (p[1] == 0x80 && (p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae))) ||
	       (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
}

/* Bytes of the character at in that may be written as it is; 0: one byte has to be escaped. */
static size_t log_plain(const char *in, size_t left)
{
	size_t len;

	if ((unsigned char)*in < 0x80)
		return (unsigned char)*in >= 32 && *in != 127;
	if (utf8_next(in, left, &len) != UTF8_OK)
		return 0;
	return log_char_moves((const unsigned char *)in, len) ? 0 : len;
}

/* Escape into out; valid both inside a JSON string and on a terminal. Returns the length. */
static size_t log_escape(char *out, size_t cap, const char *in)
{
	size_t n = 0, left = strlen(in);

	while (left && n + 7 < cap) {
		size_t len = log_plain(in, left);

		if (*in == '"' || *in == '\\')
			out[n++] = '\\';
		if (len)
			memcpy(out + n, in, len);
		else
			snprintf(out + n, cap - n, "\\u%04x", (unsigned char)*in);
		n += len ? len : 6;
		in += len ? len : 1;
		left -= len ? len : 1;
	}
	out[n] = '\0';
	return n;
}

void log_at(enum log_level level, const char *fmt, ...)
{
	char raw[LOG_LINE_MAX / 2], text[LOG_LINE_MAX - 256], line[LOG_LINE_MAX];
	char when[CLOCK_ISO_LEN];
	int saved = errno;
	va_list ap;
	int n;

	if (level < log_config.min)
		return;
	va_start(ap, fmt);
	vsnprintf(raw, sizeof(raw), fmt, ap);
	va_end(ap);
	log_escape(text, sizeof(text), raw);
	clock_iso(clock_wall_ms(), when);
	n = snprintf(line, sizeof(line),
		     log_config.json ? "{\"time\":\"%s\",\"level\":\"%s\",\"process\":\"%s\","
				       "\"request\":\"%s\",\"message\":\"%s\"}\n"
				     : "%s %s %s [%s] %s\n",
		     when, level_name[level], log_config.process, log_reqid, text);
	if (n > 0)
		(void)!write(STDERR_FILENO, line, MIN((size_t)n, sizeof(line) - 1));
	errno = saved;
}
