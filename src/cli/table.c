/*
 * table.c - tables and short texts for people.
 */
#include "cli/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/clock.h"
#include "base/scope.h"

/* Bytes of one well-formed, printable UTF-8 character at p; 0 when there is none. */
static size_t utf8_char(const unsigned char *p, wchar_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
	if (!n)
		return 0;
	uint32_t v = n == 1 ? *p : *p & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if (p[i] >> 6 != 2)
			return 0;
		v = v << 6 | (p[i] & 0x3f);
	}
	/* C0, DEL, C1, surrogates, line and direction marks never reach a terminal. */
	if (v < 0x20 || (v >= 0x7f && v < 0xa0) || v < least[n] || v > 0x10ffff)
		return 0;
	if ((v >= 0xd800 && v < 0xe000) || (v >= 0x2028 && v <= 0x202e) ||
	    (v >= 0x2066 && v <= 0x2069) || v == 0x200e || v == 0x200f || v == 0xfeff)
		return 0;
	*ret = (wchar_t)v;
	return n;
}

char *text_escape(const char *text)
{
	size_t len = strlen(text), used = 0;
	char *out = malloc(len * 4 + 1);
	if (!out)
		return NULL;
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		wchar_t wc;
		size_t n = utf8_char(p, &wc);
		if (n) {
			memcpy(out + used, p, n);
			used += n;
			p += n;
		} else {
			used += (size_t)snprintf(out + used, 5, "\\x%02x", *p++);
		}
	}
	out[used] = '\0';
	return out;
}

size_t text_width(const char *text)
{
	size_t w = 0;
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		wchar_t wc = L'?';
		size_t n = utf8_char(p, &wc);
		int cols = n > 1 ? wcwidth(wc) : 1;
		w += cols > 0 ? (size_t)cols : n > 1 && cols == 0 ? 0 : 1;
		p += n ? n : 1;
	}
	return w;
}

void text_print(FILE *f, const char *text)
{
	auto_free char *safe = text_escape(text);
	fputs(safe ? safe : "?", f);
}

struct table table_on(const char *const *head)
{
	struct table t = {.head = head};
	while (head[t.columns])
		t.columns++;
	return t;
}

void table_done(struct table *t)
{
	for (size_t i = 0; i < t->rows; i++)
		free(t->cell[i]);
	free(t->cell);
	t->cell = NULL;
	t->rows = 0;
}

void table_add(struct table *t, const char *text)
{
	if ((t->rows & (t->rows - 1)) == 0) {
		size_t cap = t->rows ? t->rows * 2 : 16;
		char **bigger = realloc(t->cell, cap * sizeof(*bigger));
		t->failed |= !bigger;
		if (!bigger)
			return;
		t->cell = bigger;
	}
	char *copy = text_escape(text && *text ? text : "-");
	t->failed |= !copy;
	if (copy)
		t->cell[t->rows++] = copy;
}

static void print_cell(FILE *f, const char *text, size_t width, bool last)
{
	size_t w = text_width(text);
	fputs(text, f);
	if (last)
		fputc('\n', f);
	else
		fprintf(f, "%*s", (int)(width > w ? width - w : 0) + 2, "");
}

void table_print(const struct table *t, FILE *f)
{
	size_t width[TABLE_COLUMNS_MAX] = {0};
	if (t->failed || t->columns > TABLE_COLUMNS_MAX)
		return;
	for (size_t i = 0; i < t->columns; i++)
		width[i] = text_width(t->head[i]);
	for (size_t i = 0; i < t->rows; i++)
		width[i % t->columns] = MAX(width[i % t->columns], text_width(t->cell[i]));
	for (size_t i = 0; i < t->columns; i++)
		print_cell(f, t->head[i], width[i], i + 1 == t->columns);
	for (size_t i = 0; i < t->rows; i++)
		print_cell(f, t->cell[i], width[i % t->columns], i % t->columns + 1 == t->columns);
}

void text_bytes(uint64_t n, char out[TEXT_SHORT])
{
	static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
	double v = (double)n;
	size_t i = 0;
	while (v >= 1024 && i + 1 < ARRAY_LEN(unit)) {
		v /= 1024;
		i++;
	}
	snprintf(out, TEXT_SHORT, i && v < 100 ? "%.1f %s" : "%.0f %s", v, unit[i]);
}

void text_age(const char *iso, char out[TEXT_SHORT])
{
	static const struct {
		int64_t s;
		const char *unit;
	} row[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {0, "s"}};
	int64_t then;
	snprintf(out, TEXT_SHORT, "-");
	if (clock_parse_iso(iso, &then) < 0)
		return;
	int64_t s = MAX((clock_wall_ms() - then) / 1000, 0);
	size_t i = 0;
	while (row[i].s && s < 2 * row[i].s)
		i++;
	snprintf(out, TEXT_SHORT, "%lld %s", (long long)(row[i].s ? s / row[i].s : s), row[i].unit);
}

const char *json_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	return s ? s : "";
}

int64_t json_number(const json_t *o, const char *key)
{
	return (int64_t)json_number_value(json_object_get(o, key));
}

int json_print(const json_t *v)
{
	/* jansson escapes control characters; non-ASCII is escaped too, so a terminal is safe. */
	if (json_dumpf(v, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_ENCODE_ANY) < 0)
		return 1;
	fputc('\n', stdout);
	return 0;
}
