/*
 * rest.c - the curl side of the command line.
 */
#include "cli/rest.h"

#include <curl/curl.h>
#include <string.h>

#include "cli/table.h"

/* One call under way. */
struct call {
	struct cli *c;
	CURL *curl;
	struct buf reply;
	const struct rest_stream *s;
	const void *up; /* body held in memory */
	size_t up_len;
	long patience_s; /* 0 none */
	struct err *err;
	bool gave_up; /* a callback failed and err tells why */
};

int url_add(struct buf *b, const char *text, struct err *err)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-._~";
	for (; *text; text++) {
		int rc = strchr(plain, *text) ? buf_add(b, text, 1, err)
					      : buf_addf(b, err, "%%%02X", (unsigned char)*text);
		if (rc < 0)
			return err_wrap(err, "URL");
	}
	return 0;
}

int url_of(struct buf *b, const char *prefix, const char *name, const char *suffix, struct err *err)
{
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return err_set(err, ERR_INVALID, "\"%s\" is not a name", name);
	if (buf_adds(b, prefix, err) < 0 || url_add(b, name, err) < 0)
		return -1;
	return buf_adds(b, suffix, err);
}

int url_query(struct buf *b, const char *key, const char *value, struct err *err)
{
	if (buf_addf(b, err, "%c%s=", strchr(buf_str(b), '?') ? '&' : '?', key) < 0)
		return -1;
	return url_add(b, value, err);
}

int rest_fault(long status, const char *body, struct err *err)
{
	static const struct {
		long status;
		enum err_code code;
	} row[] = {{400, ERR_INVALID},	 {401, ERR_UNAUTHORIZED}, {403, ERR_FORBIDDEN},
		   {404, ERR_NOT_FOUND}, {408, ERR_TIMEOUT},	  {409, ERR_CONFLICT},
		   {410, ERR_GONE},	 {413, ERR_TOO_LARGE},	  {429, ERR_RATE},
		   {501, ERR_NOT_BUILT}, {503, ERR_UNAVAILABLE}};
	enum err_code code = ERR_INTERNAL;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		if (row[i].status == status)
			code = row[i].code;
	auto_json json_t *v = json_loads(body, 0, NULL);
	json_t *m = json_object_get(v, "message");
	if (json_is_array(m))
		m = json_array_get(m, 0);
	const char *text = json_is_string(m) ? json_string_value(m) : json_text(v, "error");
	if (code == ERR_UNAUTHORIZED)
		return err_set(err, code, "the key is missing or wrong%s%s (set CAISSON_API_KEY)",
			       *text ? ": " : "", text);
	/* Not what Caisson says of a missing thing, but of a path it has no use for at all. */
	bool lost = status == 404 && (!*text || !strncmp(text, "no such route", 13));
	const char *hint = lost ? " (does the URL end in /api?)" : "";
	if (*text)
		return err_set(err, code, "%s%s", text, hint);
	return err_set(err, code, "the server answered %ld%s", status, hint);
}

void rest_curl(const struct cli *c, void *curl)
{
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
	if (c->cacert)
		curl_easy_setopt(curl, CURLOPT_CAINFO, c->cacert);
}

int rest_curl_fault(const struct cli *c, int rc, struct err *err)
{
	if (rc == CURLE_COULDNT_CONNECT)
		return err_set(err, ERR_UNAVAILABLE, "nothing answers at %s (is caissond running?)",
			       c->url);
	return err_set(err, ERR_UNAVAILABLE, "%s: %s%s", c->url, curl_easy_strerror((CURLcode)rc),
		       rc == CURLE_PEER_FAILED_VERIFICATION
			       ? " (--cacert FILE names a certificate to trust)"
			       : "");
}

static size_t on_reply(char *p, size_t one, size_t n, void *arg)
{
	struct call *k = arg;
	long status = 0;
	curl_easy_getinfo(k->curl, CURLINFO_RESPONSE_CODE, &status);
	int rc = k->s && k->s->write && status < 300 ? k->s->write(k->s->arg, p, one * n, k->err)
						     : buf_add(&k->reply, p, one * n, k->err);
	k->gave_up |= rc < 0;
	return rc < 0 ? 0 : one * n;
}

static size_t on_body(char *p, size_t one, size_t n, void *arg)
{
	struct call *k = arg;
	if (k->s && k->s->read) {
		ssize_t got = k->s->read(k->s->arg, p, one * n, k->err);
		k->gave_up |= got < 0;
		return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
	}
	size_t got = MIN(k->up_len, one * n);
	if (got)
		memcpy(p, k->up, got);
	k->up = (const char *)k->up + got;
	k->up_len -= got;
	return got;
}

static void set_body(struct call *k, struct curl_slist **head)
{
	char line[256];
	curl_off_t size = k->s && k->s->read ? k->s->size : (curl_off_t)k->up_len;
	snprintf(line, sizeof(line), "Content-Type: %s",
		 k->s && k->s->type ? k->s->type : "application/json");
	*head = curl_slist_append(*head, line);
	*head = curl_slist_append(*head, "Expect:");
	curl_easy_setopt(k->curl, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(k->curl, CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
	if (size >= 0)
		curl_easy_setopt(k->curl, CURLOPT_INFILESIZE_LARGE, size);
	else
		*head = curl_slist_append(*head, "Transfer-Encoding: chunked");
}

static int setup(struct call *k, const char *method, const char *url, struct curl_slist **head,
		 struct err *err)
{
	char line[512];
	char full[REST_URL_MAX];
	struct cli *c = k->c;
	if (!c->curl)
		c->curl = curl_easy_init();
	if (!c->curl)
		return err_set(err, ERR_NOMEM, "out of memory");
	k->curl = c->curl;
	if (snprintf(full, sizeof(full), "%s%s", *url == '/' ? c->url : "", url) >=
	    (int)sizeof(full))
		return err_set(err, ERR_INVALID, "the URL is too long");
	curl_easy_reset(k->curl);
	curl_easy_setopt(k->curl, CURLOPT_URL, full);
	rest_curl(c, k->curl);
	curl_easy_setopt(k->curl, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(k->curl, CURLOPT_TCP_NODELAY, 1L);
	curl_easy_setopt(k->curl, CURLOPT_USERAGENT, "caisson-cli/" CAISSON_VERSION);
	curl_easy_setopt(k->curl, CURLOPT_WRITEFUNCTION, on_reply);
	curl_easy_setopt(k->curl, CURLOPT_WRITEDATA, k);
	curl_easy_setopt(k->curl, CURLOPT_READFUNCTION, on_body);
	curl_easy_setopt(k->curl, CURLOPT_READDATA, k);
	curl_easy_setopt(k->curl, CURLOPT_TIMEOUT, k->patience_s);
	if (c->key &&
	    snprintf(line, sizeof(line), "Authorization: Bearer %s", c->key) < (int)sizeof(line))
		*head = curl_slist_append(*head, line);
	snprintf(line, sizeof(line), "Accept: %s",
		 k->s && k->s->accept ? k->s->accept : "application/json, */*");
	*head = curl_slist_append(*head, line);
	*head = curl_slist_append(*head, "X-Daytona-Source: caisson-cli");
	if (k->up || (k->s && k->s->read))
		set_body(k, head);
	curl_easy_setopt(k->curl, CURLOPT_HTTPHEADER, *head);
	return 0;
}

static int perform(struct call *k, json_t **ret, struct err *err)
{
	long status = 0;
	CURLcode rc = curl_easy_perform(k->curl);
	curl_easy_getinfo(k->curl, CURLINFO_RESPONSE_CODE, &status);
	/* A server may refuse before it has read the whole body: its words beat curl's. */
	if (status >= 300 && k->reply.len)
		return rest_fault(status, buf_str(&k->reply), err);
	if (k->gave_up)
		return -1;
	if (rc != CURLE_OK)
		return rest_curl_fault(k->c, (int)rc, err);
	if (status >= 300 || status < 200)
		return rest_fault(status, buf_str(&k->reply), err);
	if (!ret)
		return 0;
	*ret = k->reply.len ? json_loadb(k->reply.data, k->reply.len, JSON_DECODE_ANY, NULL)
			    : json_null();
	return *ret ? 0 : err_set(err, ERR_INTERNAL, "the server's reply is not JSON");
}

static int run(struct call *k, const char *method, const char *url, json_t **ret, struct err *err)
{
	struct curl_slist *head = NULL;
	buf_init(&k->reply, REST_REPLY_MAX);
	k->err = err;
	int rc = setup(k, method, url, &head, err);
	if (rc == 0)
		rc = perform(k, ret, err);
	curl_slist_free_all(head);
	buf_done(&k->reply);
	return rc;
}

int rest_call_for(struct cli *c, const char *method, const char *url, const json_t *body,
		  int patience_s, json_t **ret, struct err *err)
{
	struct call k = {.c = c, .patience_s = patience_s};
	auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	if (body && !text)
		return err_set(err, ERR_INVALID, "the request is not valid UTF-8");
	k.up = text;
	k.up_len = text ? strlen(text) : 0;
	return run(&k, method, url, ret, err);
}

int rest_call(struct cli *c, const char *method, const char *url, const json_t *body, json_t **ret,
	      struct err *err)
{
	return rest_call_for(c, method, url, body, REST_PATIENCE_S, ret, err);
}

int rest_stream(struct cli *c, const char *method, const char *url, const struct rest_stream *s,
		json_t **ret, struct err *err)
{
	struct call k = {.c = c, .s = s};
	return run(&k, method, url, ret, err);
}

int rest_sandbox(struct cli *c, const char *id_or_name, json_t **ret, struct err *err)
{
	auto_buf struct buf url = BUF_INIT(REST_URL_MAX);
	if (url_of(&url, "/sandbox/", id_or_name, "", err) < 0)
		return -1;
	return rest_call(c, "GET", buf_str(&url), NULL, ret, err);
}

int rest_toolbox(struct cli *c, const json_t *sandbox, struct buf *ret, struct err *err)
{
	const char *base = json_text(sandbox, "toolboxProxyUrl");
	size_t n = strlen(base);
	(void)c;
	while (n && base[n - 1] == '/')
		n--;
	if (strncmp(base, "http", 4))
		return err_set(err, ERR_INTERNAL, "the server gave no toolbox address");
	if (buf_add(ret, base, n, err) < 0 || buf_adds(ret, "/", err) < 0)
		return -1;
	return url_add(ret, json_text(sandbox, "id"), err);
}

void rest_done(struct cli *c)
{
	if (c->curl)
		curl_easy_cleanup(c->curl);
	c->curl = NULL;
}
