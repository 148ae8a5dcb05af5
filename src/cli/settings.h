/*
 * settings.h - where the daemon is and what key to use.
 *
 * CAISSON_URL, else DAYTONA_API_URL; and CAISSON_API_KEY, else DAYTONA_API_KEY: each by itself.
 * Without an address the local daemon is asked; without a key too, with the key of its data
 * directory where this user can read it. CURL_CA_BUNDLE, else SSL_CERT_FILE, names what
 * certificates are trusted, as for curl.
 */
#ifndef CAISSON_CLI_SETTINGS_H
#define CAISSON_CLI_SETTINGS_H

#include "cli/cli.h"

#define SETTINGS_URL "http://127.0.0.1:3986/api"
#define SETTINGS_KEY "/var/lib/caisson/admin.key"

int settings_load(struct cli *c, struct err *err);
void settings_done(struct cli *c);

#endif
