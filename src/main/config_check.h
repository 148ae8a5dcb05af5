/*
 * config_check.h - rules on settings beyond their type.
 */
#ifndef CAISSON_MAIN_CONFIG_CHECK_H
#define CAISSON_MAIN_CONFIG_CHECK_H

#include "main/config.h"

#define CONFIG_KEY_PREFIX "dtn_"
#define CONFIG_KEY_HEX	  64

bool config_key_valid(const char *key);
/* "host:port", "[v6]:port" or ":port" into host and port texts. */
int config_listen_split(const char *text, char host[256], char port[16], struct err *err);
/* All rules that need no file; ERR_INVALID names the setting. */
int config_check(const struct config *c, struct err *err);
/* The TLS files hold a certificate and its key. */
int config_check_tls(const struct config *c, struct err *err);

#endif
