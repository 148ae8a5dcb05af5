/*
 * toolbox_files.c - listing and changing files, contract §3.10; contents are upload.c's and
 * download.c's.
 */
#include "api/daytona/toolbox.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEPTH_MAX 1000

/* As ls -l shows it. */
static void mode_text(const struct agent_info *i, char out[11])
{
	static const char bits[] = "rwxrwxrwx";

	out[0] = i->type == 'f' ? '-' : i->type;
	for (int k = 0; k < 9; k++)
		out[k + 1] = i->mode & (0400u >> k) ? bits[k] : '-';
	if (i->mode & 04000)
		out[3] = i->mode & 0100 ? 's' : 'S';
	if (i->mode & 02000)
		out[6] = i->mode & 0010 ? 's' : 'S';
	if (i->mode & 01000)
		out[9] = i->mode & 0001 ? 't' : 'T';
	out[10] = '\0';
}

/* RFC 3339, and the text Go clients of old print; both to the nanosecond. */
static void put_times(struct jw *w, int64_t ns)
{
	int64_t frac = ns % 1000000000;
	time_t sec = (time_t)(ns / 1000000000) - (frac < 0);
	char day[16], hour[16], text[64];
	struct tm tm;

	if (frac < 0)
		frac += 1000000000;
	if (!gmtime_r(&sec, &tm))
		memset(&tm, 0, sizeof(tm));
	strftime(day, sizeof(day), "%Y-%m-%d", &tm);
	strftime(hour, sizeof(hour), "%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s %s.%09d +0000 UTC", day, hour, (int)frac);
	jw_kstr(w, "modTime", text);
	snprintf(text, sizeof(text), "%sT%s.%09dZ", day, hour, (int)frac);
	jw_kstr(w, "modifiedAt", text);
}

static void put_info(struct jw *w, const struct agent_info *i)
{
	char text[16];

	jw_open(w, '{');
	jw_kstr(w, "name", i->name);
	jw_kstr(w, "path", i->path);
	jw_kbool(w, "isDir", i->type == 'd');
	jw_key(w, "size");
	jw_uint(w, i->size);
	mode_text(i, text);
	jw_kstr(w, "mode", text);
	snprintf(text, sizeof(text), "%04o", i->mode & 07777);
	jw_kstr(w, "permissions", text);
	snprintf(text, sizeof(text), "%u", i->uid);
	jw_kstr(w, "owner", text);
	snprintf(text, sizeof(text), "%u", i->gid);
	jw_kstr(w, "group", text);
	put_times(w, i->mtime_ns);
	if (i->type == 'l')
		jw_kstr(w, "linkTarget", i->link);
	jw_close(w, '}');
}

struct file_args {
	const char *path, *source, *destination, *mode, *owner, *group;
	bool recursive;
	int64_t depth;
};

#define AT(member) offsetof(struct file_args, member) /* offsetof needs the type as a token */
#define PATH_ROW(name, flags, member)                                                              \
	{                                                                                          \
		name, JT_STR, flags, AT(member), 1, TOOLBOX_PATH_MAX - 1, NULL                     \
	}

static const struct jt_field list_fields[] = {
	{"path", JT_STR, 0, AT(path), 0, TOOLBOX_PATH_MAX - 1, NULL},
	{"depth", JT_INT, 0, AT(depth), 1, DEPTH_MAX, NULL},
};
static const struct jt_table list_table = {"", list_fields, ARRAY_LEN(list_fields)};

static const struct jt_field path_fields[] = {
	PATH_ROW("path", JT_REQUIRED, path),
	{"recursive", JT_BOOL, 0, AT(recursive), 0, 0, NULL},
	{"mode", JT_STR, 0, AT(mode), 0, 8, NULL},
	{"owner", JT_STR, 0, AT(owner), 0, AGENT_USER_MAX - 1, NULL},
	{"group", JT_STR, 0, AT(group), 0, AGENT_USER_MAX - 1, NULL},
};
static const struct jt_table path_table = {"", path_fields, ARRAY_LEN(path_fields)};

static const struct jt_field move_fields[] = {
	PATH_ROW("source", JT_REQUIRED, source),
	PATH_ROW("destination", JT_REQUIRED, destination),
};
static const struct jt_table move_table = {"", move_fields, ARRAY_LEN(move_fields)};

static int list_entry(void *arg, const struct agent_info *i, struct err *err)
{
	struct jw *w = arg;

	put_info(w, i);
	return jw_end(w, err);
}

int daytona_toolbox_ListFiles(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct file_args a = {.path = ".", .depth = 1};
	bool more = false;
	struct jw w;

	if (api_query(req, &list_table, &a, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '[');
	if (file_list(api_core(req), api_who(req), toolbox_id(req), *a.path ? a.path : ".",
		      (uint32_t)a.depth, list_entry, &w, &more, err) < 0)
		return file_failed("path", err);
	jw_close(&w, ']');
	/* The contract's reply is a bare array, so a cut listing can only say so in a header. */
	if (more)
		http_reply_header(req, "X-Caisson-Truncated", "true");
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_GetFileInfo(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	struct agent_info info = {0};
	struct file_args a = {0};
	struct jw w;

	if (api_query(req, &path_table, &a, err) < 0 ||
	    file_stat(api_core(req), api_who(req), toolbox_id(req), a.path, &info, err) < 0)
		return file_failed("path", err);
	jw_init(&w, &b);
	put_info(&w, &info);
	agent_info_done(&info);
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_DeleteFile(struct http_req *req, struct err *err)
{
	struct file_args a = {0};

	if (api_query(req, &path_table, &a, err) < 0 ||
	    file_remove(api_core(req), api_who(req), toolbox_id(req), a.path, a.recursive, err) < 0)
		return file_failed("path", err);
	return http_reply_empty(req, 204, err);
}

int daytona_toolbox_CreateFolder(struct http_req *req, struct err *err)
{
	struct file_args a = {0};
	mode_t mode = 0755;

	if (api_query(req, &path_table, &a, err) < 0)
		return -1;
	if (a.mode && *a.mode && mode_parse("mode", a.mode, &mode, err) < 0)
		return -1;
	if (file_mkdir(api_core(req), api_who(req), toolbox_id(req), a.path, mode, err) < 0)
		return file_failed("path", err);
	return http_reply_empty(req, 201, err);
}

int daytona_toolbox_MoveFile(struct http_req *req, struct err *err)
{
	struct file_args a = {0};

	if (api_query(req, &move_table, &a, err) < 0)
		return -1;
	if (file_move(api_core(req), api_who(req), toolbox_id(req), a.source, a.destination, err) <
	    0)
		return file_move_failed(a.source, a.destination, err);
	return http_reply_empty(req, 200, err);
}

int daytona_toolbox_SetFilePermissions(struct http_req *req, struct err *err)
{
	struct file_args a = {0};
	bool has_mode;
	mode_t mode = 0;

	if (api_query(req, &path_table, &a, err) < 0)
		return -1;
	has_mode = a.mode && *a.mode;
	if (has_mode && mode_parse("mode", a.mode, &mode, err) < 0)
		return -1;
	if (!has_mode && !(a.owner && *a.owner) && !(a.group && *a.group))
		return err_set(err, ERR_INVALID, "mode: one of mode, owner, group is required");
	if (file_setattr(api_core(req), api_who(req), toolbox_id(req), a.path,
			 has_mode ? &mode : NULL, a.owner, a.group, err) < 0)
		return file_failed("path", err);
	return http_reply_empty(req, 200, err);
}
