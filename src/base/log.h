/*
 * log.h - the log, one line an event on standard error, as text or as JSON lines.
 *
 * Only the top of each process logs; library layers return errors. The request id of the calling
 * thread is added to each line and travels in the privileged and agent protocols. Control bytes
 * are escaped, so attackers' names cannot forge lines or drive a terminal.
 */
#ifndef CAISSON_BASE_LOG_H
#define CAISSON_BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

#define LOG_REQID_LEN 24

void log_setup(const char *process, enum log_level min, bool json);
/* Request id of this thread; NULL or "" clears. Longer ids are cut. */
void log_set_request(const char *reqid);
const char *log_request(void);
void log_at(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_at(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_at(LOG_ERROR, __VA_ARGS__)

#endif
