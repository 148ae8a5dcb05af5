/*
 * settings.c - environment of the command line.
 */
#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

static const char *env_of(const char *name)
{
	const char *v = getenv(name);
	return v && *v ? v : NULL;
}

/* The first admin key of a daemon on this machine; only root can read it. */
static char *local_key(void)
{
	char line[256] = "";
	auto_fclose FILE *f = fopen(SETTINGS_KEY, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return NULL;
	line[strcspn(line, " \r\n\t")] = '\0';
	return *line ? strdup(line) : NULL;
}

int settings_load(struct cli *c, struct err *err)
{
	const char *url = env_of("CAISSON_URL"), *key = env_of("CAISSON_API_KEY");
	if (!url)
		url = env_of("DAYTONA_API_URL");
	if (!key)
		key = env_of("DAYTONA_API_KEY");
	c->url_heap = strdup(url ? url : SETTINGS_URL);
	c->key_heap = key ? strdup(key) : url ? NULL : local_key();
	c->key_local = !key && c->key_heap;
	c->cacert = env_of("CURL_CA_BUNDLE");
	if (!c->cacert)
		c->cacert = env_of("SSL_CERT_FILE");
	if (!c->url_heap)
		return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t n = strlen(c->url_heap); n && c->url_heap[n - 1] == '/'; n--)
		c->url_heap[n - 1] = '\0';
	if (strncmp(c->url_heap, "http://", 7) && strncmp(c->url_heap, "https://", 8))
		return err_set(err, ERR_INVALID, "the URL must start with http:// or https://");
	c->url = c->url_heap;
	c->key = c->key_heap;
	return 0;
}

void settings_done(struct cli *c)
{
	free(c->url_heap);
	free(c->key_heap);
	c->url = c->key = NULL;
	c->url_heap = c->key_heap = NULL;
}
