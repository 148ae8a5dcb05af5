/*
 * fuzz_image_name.c - any name: refused, or in normal form and inside.
 */
#include <stdlib.h>
#include <string.h>

#include "image/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *raw = strndup((const char *)data, size);
	struct image_name n, again;
	char *part, *rest;

	if (!raw)
		return 0;
	if (image_name_parse(raw, 128, &n, NULL) == 0) {
		if (n.path[0] == '/' || strlen(n.path) >= PATH_MAX || n.base > strlen(n.path))
			abort();
		/* Parsing what came out changes nothing, unless it reads as a whiteout. */
		if (n.kind == IMAGE_NAME_PLAIN &&
		    (image_name_parse(n.path, 128, &again, NULL) < 0 ||
		     strcmp(n.path, again.path) != 0 || n.base != again.base))
			abort();
		rest = n.path;
		while ((part = strsep(&rest, "/")))
			if (strcmp(part, "..") == 0 || strlen(part) > NAME_MAX)
				abort();
	}
	free(raw);
	return 0;
}
