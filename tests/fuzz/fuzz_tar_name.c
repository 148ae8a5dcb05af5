/*
 * fuzz_tar_name.c - any bytes as the name of an archive's entry: refused, or a path of plain
 * components that stays below the directory.
 */
#include <stdlib.h>
#include <string.h>

#include "core/files_int.h"
#include "lib/fuzz_replay.h"

#define NAME_BYTES_MAX 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[NAME_BYTES_MAX + 1], out[AGENT_PATH_MAX];
	struct err err;

	if (size > NAME_BYTES_MAX)
		return 0;
	memcpy(name, data, size);
	name[size] = '\0';
	if (untar_name(name, out, sizeof(out), &err) < 0) {
		if (err.code != ERR_INVALID)
			abort();
		return 0;
	}
	if (strlen(out) >= sizeof(out) || (out[0] && out[0] != '/') || strstr(out, "//"))
		abort();
	for (const char *p = out; *p; p += 1 + strcspn(p + 1, "/")) {
		size_t n = strcspn(p + 1, "/");

		if (n == 0 || (n == 1 && p[1] == '.') || (n == 2 && p[1] == '.' && p[2] == '.'))
			abort();
	}
	return 0;
}
