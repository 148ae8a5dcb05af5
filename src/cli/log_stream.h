/*
 * log_stream.h - printing what a command of a session has said, and goes on to say.
 */
#ifndef CAISSON_CLI_LOG_STREAM_H
#define CAISSON_CLI_LOG_STREAM_H

#include <stdbool.h>

#include "cli/cli.h"

/*
 * Print the log at url (http, of the toolbox) on standard output and error. follow: until the
 * command has ended. 1 when our reader went away, as for "| head".
 */
int log_stream_print(struct cli *c, const char *url, bool follow, struct err *err);

#endif
