/*
 * fuzz_base64.c - any text: refused, or bytes whose text decodes to them again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf struct buf bytes = BUF_INIT(1 << 20), text = BUF_INIT(2 << 20);
	auto_buf struct buf again = BUF_INIT(1 << 20);

	if (base64_decode((const char *)data, size, &bytes, NULL) < 0)
		return 0;
	if (base64_encode(bytes.data, bytes.len, &text, NULL) < 0 ||
	    text.len != BASE64_LEN(bytes.len) ||
	    base64_decode(text.data, text.len, &again, NULL) < 0 || again.len != bytes.len ||
	    (bytes.len && memcmp(again.data, bytes.data, bytes.len) != 0))
		abort();
	return 0;
}
