/*
 * artifacts.c - takes the charts out of what a program printed, see toolbox.h. A line that only
 * looks like an artifact stays in the text: programs may print what they like.
 */
#include "api/daytona/toolbox.h"

#include <string.h>

static const char artifact_mark[] = "dtn_artifact_k39fd2:";

struct artifact {
	const char *type;
	struct json_t *value;
};

static const struct jt_field artifact_fields[] = {
	{"type", JT_STR, JT_REQUIRED, offsetof(struct artifact, type), 0, 64, NULL},
	{"value", JT_JSON, JT_REQUIRED, offsetof(struct artifact, value), 0, 0, NULL},
};
static const struct jt_table artifact_table = {"", artifact_fields, ARRAY_LEN(artifact_fields)};

/* p..p+n is the JSON behind a mark; false when it is none. */
static bool artifact_take(const char *p, size_t n, struct jw *charts)
{
	auto_jt_doc struct jt_doc doc = {NULL};
	struct artifact a = {0};

	if (jt_parse(&doc, p, n, NULL) < 0 || jt_decode(&doc, &artifact_table, &a, NULL) < 0 ||
	    strcmp(a.type, "chart") != 0 || !jt_is_object(a.value))
		return false;
	jt_dump(charts, a.value);
	return true;
}

void artifacts_split(const char *p, size_t n, struct jw *text, struct jw *charts)
{
	const size_t mark = sizeof(artifact_mark) - 1;
	const char *end = p + n, *at, *json, *line_end;

	while ((at = memmem(p, (size_t)(end - p), artifact_mark, mark))) {
		json = at + mark;
		line_end = memchr(json, '\n', (size_t)(end - json));
		if (!line_end)
			line_end = end;
		jw_text_more(text, p, (size_t)(at - p));
		if (artifact_take(json, (size_t)(line_end - json), charts))
			p = line_end < end ? line_end + 1 : end;
		else {
			jw_text_more(text, at, mark);
			p = json;
		}
	}
	jw_text_more(text, p, (size_t)(end - p));
}
