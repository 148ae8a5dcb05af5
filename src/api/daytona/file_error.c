/*
 * file_error.c - errors of the sandbox's file calls, which speak as the kernel does, in the words
 * of this API: the field first, then what is wrong with it.
 */
#include "api/daytona/toolbox.h"

#include <stdio.h>
#include <string.h>

/* Whether the message is "<verb> <path>: <reason>", or a bare reason of the file call. */
static bool is_of_file(const struct err *err)
{
	static const char *const verbs[] = {"open ",   "stat ",	 "mkdir ", "rename ",
					    "remove ", "chown ", "chmod "};

	if (err->code != ERR_INVALID && err->code != ERR_NOT_FOUND && err->code != ERR_FORBIDDEN &&
	    err->code != ERR_CONFLICT)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strncmp(err->msg, verbs[i], strlen(verbs[i])) == 0)
			return true;
	return err->tag && strcmp(err->tag, "INVALID_FILE_PATH") == 0 && !strstr(err->msg, ": ");
}

/* Turn "/x: Is a directory" at the end of text into "/x is a directory". */
static void tell_directory(char *text)
{
	static const char end[] = ": Is a directory";
	size_t n = strlen(text), k = sizeof(end) - 1;

	if (n >= k && strcmp(text + n - k, end) == 0)
		snprintf(text + n - k, k + 1, "%s", " is a directory");
}

int file_failed(const char *field, struct err *err)
{
	char text[ERR_MSG_MAX];
	const char *from = err->msg;

	if (!is_of_file(err))
		return -1;
	if (strncmp(from, "open ", 5) == 0)
		from += 5;
	snprintf(text, sizeof(text), "%s", from);
	tell_directory(text);
	snprintf(err->msg, sizeof(err->msg), "%.40s: %.460s", field, text);
	return -1;
}

/* Whether the message's path is path or a folder above it. */
static bool is_about(const struct err *err, const char *path)
{
	const char *at = strchr(err->msg, ' ');
	const char *end = at ? strstr(at, ": ") : NULL;

	return end && strncmp(path, at + 1, (size_t)(end - at - 1)) == 0;
}

int file_move_failed(const char *source, const char *destination, struct err *err)
{
	bool from = is_about(err, source), to = is_about(err, destination);

	if (from == to)
		return file_failed("source, destination", err);
	return file_failed(from ? "source" : "destination", err);
}
