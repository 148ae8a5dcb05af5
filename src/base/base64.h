/*
 * base64.h - RFC 4648 text of bytes, and back, strictly.
 */
#ifndef CAISSON_BASE_BASE64_H
#define CAISSON_BASE_BASE64_H

#include "base/buf.h"

/* Characters of n bytes, padded. */
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

/* Append the text of n bytes; whole groups when n is divisible by three. */
int base64_encode(const void *p, size_t n, struct buf *out, struct err *err);
/*
 * Append the bytes of n characters of either alphabet (+/ or -_), padding optional. ERR_INVALID
 * for anything else, also bits that belong to no byte; out may then hold a part.
 */
int base64_decode(const char *p, size_t n, struct buf *out, struct err *err);

#endif
