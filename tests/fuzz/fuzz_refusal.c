/*
 * fuzz_refusal.c - any two pieces of a reply: untouched, or a whole reply with a JSON body.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/refusal.h"
#include "jtab/jtab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t cut = size ? data[0] * (size - 1) / 255 : 0, n;
	char *head = malloc(cut + 1), *page = malloc(size + 1), out[2048], *body;
	struct jt_doc doc = {NULL};

	if (!size)
		goto done;
	memcpy(head, data + 1, cut);
	memcpy(page, data + 1 + cut, size - 1 - cut);
	n = refusal_of_page(head, cut, page, size - 1 - cut, out, sizeof(out) - 1);
	out[n] = '\0';
	if (n) {
		body = strstr(out, "\r\n\r\n");
		if (!body || strlen(out) != n)
			abort();
		body += 4;
		if (jt_parse(&doc, body, strlen(body), NULL) < 0)
			abort();
		jt_doc_done(&doc);
	}
done:
	free(head);
	free(page);
	return 0;
}
