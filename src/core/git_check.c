/*
 * git_check.c - arguments of git calls. What begins with '-' could become an option and is
 * refused wherever git takes options too; names follow git's own rules for references, so that
 * the refusal names the field instead of what git happens to print.
 */
#include <ctype.h>
#include <string.h>

#include "core/git_int.h"

#define FILES_MAX 10000

int git_check_line(const char *field, const char *text, struct err *err)
{
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < 32 || *p == 127)
			return err_set(err, ERR_INVALID, "%s: must not hold control characters",
				       field);
	return 0;
}

static int check_word(const char *field, const char *text, size_t max, struct err *err)
{
	if (!*text || strlen(text) >= max)
		return err_set(err, ERR_INVALID, "%s: must be 1 to %zu bytes", field, max - 1);
	if (*text == '-')
		return err_set(err, ERR_INVALID, "%s: must not begin with '-'", field);
	return git_check_line(field, text, err);
}

/* One part of a reference's name, between slashes. */
static bool part_valid(const char *p, size_t n)
{
	return n > 0 && p[0] != '.' && !(n >= 5 && memcmp(p + n - 5, ".lock", 5) == 0);
}

/* The rules of git-check-ref-format for a name below refs/heads/. */
static bool ref_valid(const char *name)
{
	size_t n = strlen(name);
	const char *p = name;

	if (strpbrk(name, " ~^:?*[\\") || strstr(name, "..") || strstr(name, "@{") ||
	    strcmp(name, "@") == 0 || strcmp(name, "HEAD") == 0 || name[n - 1] == '.')
		return false;
	for (;;) {
		size_t part = strcspn(p, "/");

		if (!part_valid(p, part))
			return false;
		if (!p[part])
			return true;
		p += part + 1;
	}
}

int git_check_branch(const char *field, const char *name, struct err *err)
{
	if (check_word(field, name, GIT_NAME_MAX, err) < 0)
		return -1;
	if (!ref_valid(name))
		return err_set(err, ERR_INVALID, "%s: is not a valid name of a branch", field);
	return 0;
}

int git_check_rev(const char *field, const char *rev, struct err *err)
{
	return check_word(field, rev, GIT_NAME_MAX, err);
}

int git_check_remote(const char *field, const char *name, struct err *err)
{
	if (check_word(field, name, GIT_NAME_MAX, err) < 0)
		return -1;
	if (!ref_valid(name))
		return err_set(err, ERR_INVALID, "%s: is not a valid name of a remote", field);
	return 0;
}

int git_check_hash(const char *field, const char *hash, struct err *err)
{
	size_t n = strlen(hash);

	if (n < 4 || n > 64 || hash[strspn(hash, "0123456789abcdefABCDEF")])
		return err_set(err, ERR_INVALID, "%s: must be 4 to 64 hexadecimal digits", field);
	return 0;
}

int git_check_files(const char *const *files, struct err *err)
{
	size_t n = 0;

	for (; files && files[n]; n++) {
		if (n >= FILES_MAX)
			return err_set(err, ERR_INVALID, "files: must be at most %d", FILES_MAX);
		if (!files[n][0] || strlen(files[n]) >= AGENT_PATH_MAX)
			return err_set(err, ERR_INVALID, "files[%zu]: must be 1 to %d bytes", n,
				       AGENT_PATH_MAX - 1);
	}
	if (n == 0)
		return err_set(err, ERR_INVALID, "files: must not be empty");
	return 0;
}

/* section.key or section.any text.key, as git has it. */
int git_check_key(const char *key, struct err *err)
{
	const char *dot = strchr(key, '.'), *last = strrchr(key, '.');
	bool ok = dot && dot > key && last[1] && isalpha((unsigned char)last[1]);

	if (check_word("key", key, GIT_NAME_MAX, err) < 0)
		return -1;
	for (const char *p = key; ok && p < dot; p++)
		ok = isalnum((unsigned char)*p) || *p == '-';
	for (const char *p = last + 1; ok && *p; p++)
		ok = isalnum((unsigned char)*p) || *p == '-';
	if (!ok)
		return err_set(err, ERR_INVALID, "key: must be like section.name");
	return 0;
}

int git_check_scope(const char *scope, struct err *err)
{
	if (scope && strcmp(scope, "global") != 0 && strcmp(scope, "local") != 0 &&
	    strcmp(scope, "system") != 0)
		return err_set(err, ERR_INVALID, "scope: must be one of global, local, system");
	return 0;
}
