/*
 * opt.c - reading options from the tables of the sub-commands.
 */
#include "cli/opt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct globals {
	bool json, quiet, help;
	const char *url, *key_file, *cacert;
};

#define G(field) offsetof(struct globals, field)
const struct opt opt_global[] = {
	{'j', "json", NULL, "print JSON for scripts", OPT_FLAG, G(json)},
	{'q', "quiet", NULL, "print no progress", OPT_FLAG, G(quiet)},
	{0, "url", "URL", "base of the API (CAISSON_URL)", OPT_STR, G(url)},
	{0, "key-file", "FILE", "file with the API key (CAISSON_API_KEY)", OPT_STR, G(key_file)},
	{0, "cacert", "FILE", "certificates to trust (CURL_CA_BUNDLE, SSL_CERT_FILE)", OPT_STR,
	 G(cacert)},
	{'h', "help", NULL, "show this help", OPT_FLAG, G(help)},
	{.kind = OPT_END},
};

int opt_parse_int(const char *text, int64_t *ret, struct err *err)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < 0)
		return err_set(err, ERR_INVALID, "\"%s\" is not a whole number >= 0", text);
	*ret = v;
	return 0;
}

int opt_parse_secs(const char *text, int64_t *ret_ms, struct err *err)
{
	static const struct {
		const char *unit;
		double ms;
	} row[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
	char *end;
	double v = strtod(text, &end);
	for (size_t i = 0; end != text && i < ARRAY_LEN(row); i++) {
		if (strcmp(end, row[i].unit) || !(v >= 0 && v * row[i].ms < 1e15))
			continue;
		*ret_ms = (int64_t)(v * row[i].ms);
		return 0;
	}
	return err_set(err, ERR_INVALID, "\"%s\" is not a time like 90, 1.5s, 2m or 1h", text);
}

static int parse_mins(const char *text, int64_t *ret_ms, struct err *err)
{
	if (opt_parse_secs(text, ret_ms, err) < 0)
		return -1;
	if (*ret_ms % 60000)
		return err_set(err, ERR_INVALID, "\"%s\" is not whole minutes, as 2m or 1h are",
			       text);
	return 0;
}

static int kv_value(struct kv *kv, const char *text, bool from_env, struct err *err)
{
	const char *eq = strchr(text, '=');
	auto_free char *key = strndup(text, eq ? (size_t)(eq - text) : strlen(text));
	if (!key)
		return err_set(err, ERR_NOMEM, "out of memory");
	if (!*key || (!eq && !from_env))
		return err_set(err, ERR_INVALID, "\"%s\" is not KEY=VALUE", text);
	const char *value = eq ? eq + 1 : getenv(key);
	if (!value)
		return err_set(err, ERR_INVALID, "%s is not in the environment", key);
	return kv_set(kv, key, value, err);
}

static int store(const struct opt *o, void *args, const char *value, struct err *err)
{
	void *p = (char *)args + o->offset;
	struct opt_list *list = p;
	switch (o->kind) {
	case OPT_FLAG:
		*(bool *)p = true;
		return 0;
	case OPT_STR:
		*(const char **)p = value;
		return 0;
	case OPT_INT:
		return opt_parse_int(value, p, err);
	case OPT_SECS:
		return opt_parse_secs(value, p, err);
	case OPT_MINS:
		return parse_mins(value, p, err);
	case OPT_ENV:
	case OPT_KV:
		return kv_value(p, value, o->kind == OPT_ENV, err);
	case OPT_LIST:
		if (list->n == OPT_LIST_MAX)
			return err_set(err, ERR_INVALID, "at most %d are taken", OPT_LIST_MAX);
		list->v[list->n++] = value;
		return 0;
	case OPT_END:
		break;
	}
	return err_set(err, ERR_INTERNAL, "option of unknown kind");
}

static const struct opt *find_long(const struct opt *o, const char *name, size_t n)
{
	for (; o->kind != OPT_END; o++)
		if (strlen(o->name) == n && !memcmp(o->name, name, n))
			return o;
	return NULL;
}

static const struct opt *find_short(const struct opt *o, char letter)
{
	for (; o->kind != OPT_END; o++)
		if (o->letter && o->letter == letter)
			return o;
	return NULL;
}

bool opt_takes_value(const char *word)
{
	const struct opt *o =
		strncmp(word, "--", 2) ? NULL : find_long(opt_global, word + 2, strlen(word + 2));
	return o && o->kind != OPT_FLAG;
}

/* The state of one parse: where options go, and where the next word comes from. */
struct parse {
	struct cli *c;
	struct globals g;
	void *args;
	int argc, next;
	char **argv;
};

static int give(struct parse *p, const struct opt *o, bool global, const char *value,
		struct err *err)
{
	if (o->kind != OPT_FLAG && !value) {
		if (p->next >= p->argc)
			return err_set(err, ERR_INVALID, "--%s needs %s", o->name, o->arg);
		value = p->argv[p->next++];
	}
	if (store(o, global ? (void *)&p->g : p->args, value, err) < 0)
		return err_wrap(err, "--%s", o->name);
	return 0;
}

static int take_long(struct parse *p, const char *word, struct err *err)
{
	const char *eq = strchr(word, '=');
	size_t n = eq ? (size_t)(eq - word) : strlen(word);
	const struct opt *o = find_long(p->c->cmd->opts, word, n);
	bool global = !o;
	if (!o)
		o = find_long(opt_global, word, n);
	if (!o)
		return err_set(err, ERR_INVALID, "unknown option --%.*s", (int)MIN(n, 40u), word);
	if (eq && o->kind == OPT_FLAG)
		return err_set(err, ERR_INVALID, "--%s takes no value", o->name);
	return give(p, o, global, eq ? eq + 1 : NULL, err);
}

static int take_short(struct parse *p, const char *word, struct err *err)
{
	for (; *word; word++) {
		const struct opt *o = find_short(p->c->cmd->opts, *word);
		bool global = !o;
		if (!o)
			o = find_short(opt_global, *word);
		if (!o)
			return err_set(err, ERR_INVALID, "unknown option -%c", *word);
		const char *value = o->kind != OPT_FLAG && word[1] ? word + 1 : NULL;
		if (give(p, o, global, value, err) < 0)
			return -1;
		if (value)
			break;
	}
	return 0;
}

static int read_key_file(struct cli *c, const char *path, struct err *err)
{
	char line[256] = "";
	auto_fclose FILE *f = fopen(path, "re");
	if (!f)
		return err_errno(err, ERR_INVALID, errno, "key file %s", path);
	if (!fgets(line, sizeof(line), f))
		return err_set(err, ERR_INVALID, "key file %s is empty", path);
	line[strcspn(line, " \r\n\t")] = '\0';
	char *key = strdup(line);
	if (!key)
		return err_set(err, ERR_NOMEM, "out of memory");
	free(c->key_heap);
	c->key = c->key_heap = key;
	return 0;
}

static int apply_globals(struct cli *c, const struct globals *g, struct err *err)
{
	c->json |= g->json;
	c->quiet |= g->quiet;
	if (g->help) {
		c->help = true;
		opt_help(stdout, c->cmd);
	}
	if (g->url) {
		char *url = strdup(g->url);
		if (!url)
			return err_set(err, ERR_NOMEM, "out of memory");
		free(c->url_heap);
		c->url = c->url_heap = url;
		if (c->key_local)
			c->key = NULL;
		for (size_t n = strlen(url); n && url[n - 1] == '/'; n--)
			url[n - 1] = '\0';
	}
	if (g->cacert)
		c->cacert = g->cacert;
	return g->key_file ? read_key_file(c, g->key_file, err) : 0;
}

static void unset_numbers(const struct opt *o, void *args)
{
	for (; o->kind != OPT_END; o++)
		if (o->kind == OPT_INT || o->kind == OPT_SECS || o->kind == OPT_MINS)
			*(int64_t *)((char *)args + o->offset) = OPT_UNSET;
}

int opt_parse(struct cli *c, int argc, char **argv, void *args, struct err *err)
{
	struct parse p = {.c = c, .args = args, .argc = argc, .argv = argv};
	int left = 0;
	unset_numbers(c->cmd->opts, args);
	while (p.next < argc) {
		char *word = argv[p.next++];
		int rc = 0;
		if (!strcmp(word, "--"))
			break;
		if (word[0] != '-' || !word[1])
			argv[left++] = word;
		else if (word[1] == '-')
			rc = take_long(&p, word + 2, err);
		else
			rc = take_short(&p, word + 1, err);
		if (rc < 0)
			return -1;
		if (left && c->cmd->stop_at_arg)
			break;
	}
	if (left && p.next < argc && c->cmd->stop_at_arg && !strcmp(argv[p.next], "--"))
		p.next++;
	while (p.next < argc)
		argv[left++] = argv[p.next++];
	if (apply_globals(c, &p.g, err) < 0)
		return -1;
	return left;
}

static void help_rows(FILE *f, const struct opt *o)
{
	for (; o->kind != OPT_END; o++) {
		char left[64];
		snprintf(left, sizeof(left), "%s--%s%s%s", o->letter ? "" : "    ", o->name,
			 o->arg ? " " : "", o->arg ? o->arg : "");
		if (o->letter)
			fprintf(f, "  -%c, %-24s %s\n", o->letter, left, o->help);
		else
			fprintf(f, "  %-28s %s\n", left, o->help);
	}
}

static void help_times(FILE *f, const struct opt *o)
{
	bool time = false, mins = false;
	for (; o->kind != OPT_END; o++) {
		time |= o->kind == OPT_SECS || o->kind == OPT_MINS;
		mins |= o->kind == OPT_MINS;
	}
	if (time)
		fputs("\nTIME is in seconds, or with its unit: 90, 500ms, 1.5s, 2m, 1h, 1d.\n", f);
	if (mins)
		fputs("MINUTES is a TIME of whole minutes: 120, 2m, 1h, 1d.\n", f);
}

void opt_help(FILE *f, const struct cmd *cmd)
{
	fprintf(f, "caisson %s%s%s\n\n%s\n", cmd->name, *cmd->args ? " " : "", cmd->args,
		cmd->help);
	if (cmd->opts[0].kind != OPT_END) {
		fputs("\nOptions:\n", f);
		help_rows(f, cmd->opts);
		help_times(f, cmd->opts);
	}
	fputs("\nEverywhere:\n", f);
	help_rows(f, opt_global);
}
