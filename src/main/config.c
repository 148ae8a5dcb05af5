/*
 * config.c - see config.h.
 */
#include "main/config.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#define CONFIG_FILE_DEFAULT "/etc/caisson/caissond.conf"
#define CONFIG_LINE_MAX	    4096

enum config_type {
	CFG_STR,
	CFG_PATH, /* made absolute when set */
	CFG_INT,
	CFG_BYTES,
	CFG_BOOL,
	CFG_CHOICE,
};

struct config_row {
	const char *name;
	enum config_type type;
	size_t offset;
	const char *def; /* text of the default, NULL: unset */
	int64_t min, max;
	const char *choices; /* "a|b" */
	const char *doc;
};

#define AT(field) offsetof(struct config, field)
#define GIB	  (INT64_C(1) << 30)

static const struct config_row config_rows[] = {
	{"listen", CFG_STR, AT(listen), "127.0.0.1:3986", 0, 0, NULL,
	 "Address and port of the REST API; [::1]:3986 for IPv6, port 0 for any free one."},
	{"data-dir", CFG_PATH, AT(data_dir), "/var/lib/caisson", 0, 0, NULL,
	 "Records, writable layers and the first key. One daemon per directory."},
	{"run-dir", CFG_PATH, AT(run_dir), "/run/caisson", 0, 0, NULL,
	 "Sockets, locks and pins of what runs; shared by all daemons of the machine."},
	{"cache-dir", CFG_PATH, AT(cache_dir), "/var/cache/caisson", 0, 0, NULL,
	 "Unpacked image layers, shared read-only between data directories."},
	{"default-image", CFG_PATH, AT(default_image), NULL, 0, 0, NULL,
	 "Root file system archive behind the default snapshots (tar, any compression)."},
	{"public-url", CFG_STR, AT(public_url), NULL, 0, 0, NULL,
	 "Base of links in replies; unset: the Host of the request."},
	{"on-exit", CFG_CHOICE, AT(on_exit), "keep", 0, 0, "keep|destroy",
	 "What SIGTERM does to sandboxes: they live on, or all are destroyed (throwaway use)."},
	{"tls-cert", CFG_PATH, AT(tls_cert), NULL, 0, 0, NULL, "PEM certificate chain file."},
	{"tls-key", CFG_PATH, AT(tls_key), NULL, 0, 0, NULL, "PEM private key file."},
	{"log-format", CFG_CHOICE, AT(log_format), "text", 0, 0, "text|json",
	 "One event a line, as text or JSON."},
	{"log-level", CFG_CHOICE, AT(log_level), "info", 0, 0, "debug|info|warn|error",
	 "Least level that is written."},
	{"region", CFG_STR, AT(region), "local", 0, 0, NULL, "Id and name of the one region."},
	{"warm-pool", CFG_INT, AT(warm_pool), "0", 0, 1000, NULL,
	 "Started sandboxes of the default snapshot kept parked for the next create."},
	{"net-pool", CFG_INT, AT(net_pool), "16", 1, 4096, NULL,
	 "Ready network namespaces kept for the next start."},
	{"upper-pool", CFG_INT, AT(upper_pool), "16", 1, 4096, NULL,
	 "Ready writable layers kept for the next create."},
	{"uplink-netns", CFG_PATH, AT(uplink_netns), NULL, 0, 0, NULL,
	 "Network namespace (path) that is the outside; unset: the machine's own."},
	{"resolvers", CFG_STR, AT(resolvers), NULL, 0, 0, NULL,
	 "Comma list of upstream DNS resolvers; unset: /etc/resolv.conf."},
	{"net-allow-ranges", CFG_STR, AT(net_allow_ranges), NULL, 0, 0, NULL,
	 "Operator's exceptions (CIDR list) to the ranges denied to every sandbox."},
	{"trusted-proxies", CFG_STR, AT(trusted_proxies), NULL, 0, 0, NULL,
	 "Comma list of addresses whose X-Forwarded-* headers count."},
	{"disk-low", CFG_BYTES, AT(disk_low), "1G", 0, INT64_MAX, NULL,
	 "Creates are refused while less disk than this is free."},
	{"stop-grace-ms", CFG_INT, AT(stop_grace_ms), "5000", 0, 600000, NULL,
	 "Time between TERM and KILL when a sandbox is stopped."},
	{"hold-ms", CFG_INT, AT(hold_ms), "30000", 0, 300000, NULL,
	 "Longest a reply to create, start or stop waits for the final state."},
	{"max-sandboxes", CFG_INT, AT(max_sandboxes), "0", 0, 1000000, NULL,
	 "Live sandboxes of this daemon; 0 for no limit."},
	{"max-cpu", CFG_INT, AT(max_cpu), "4", 1, 512, NULL, "Most cores of one sandbox."},
	{"max-memory", CFG_INT, AT(max_memory), "8", 1, 4096, NULL,
	 "Most memory of one sandbox, GiB."},
	{"max-disk", CFG_INT, AT(max_disk), "10", 1, 65536, NULL, "Most disk of one sandbox, GiB."},
	{"output-max", CFG_BYTES, AT(output_max), "64M", 65536, GIB, NULL,
	 "Bytes of output collected by a one-shot exec; more is cut and said so."},
	{"max-connections", CFG_INT, AT(max_connections), "2048", 8, 100000, NULL,
	 "HTTP connections at once."},
	{"max-per-address", CFG_INT, AT(max_per_address), "512", 1, 100000, NULL,
	 "HTTP connections of one address; loopback and trusted proxies are spared."},
	{"api-user", CFG_STR, AT(api_user), NULL, 0, 0, NULL,
	 "User of the api process; unset: \"caisson\" if it exists, else uid 61986."},
	{"admin-key", CFG_STR, AT(admin_key), NULL, 0, 0, NULL,
	 "First key (dtn_ and 64 hex digits) instead of a random one; best by environment."},
	{"init-path", CFG_PATH, AT(init_path), NULL, 0, 0, NULL,
	 "The caisson-init program; unset: beside caissond, else in its libexec folder."},
	{"no-privsep", CFG_BOOL, AT(no_privsep), "false", 0, 0, NULL,
	 "The api role runs as root on threads of the runner's process, for a debugger: its own "
	 "user, its seccomp filter and its restarts are off."},
};

static const struct {
	const char *name;
	size_t offset;
	const char *doc;
} config_actions[] = {
	{"print-config", AT(print_config), "Print the effective settings and exit."},
	{"print-config-docs", AT(print_docs), "Print this table as Markdown and exit."},
	{"version", AT(version), "Print the version and exit."},
	{"help", AT(help), "Print this help and exit."},
};

static int parse_int(const struct config_row *r, const char *text, int64_t *ret, struct err *err)
{
	static const char units[] = "KMGT";
	char *end;
	int64_t v;

	errno = 0;
	v = strtoll(text, &end, 10);
	if (r->type == CFG_BYTES && *end && strchr(units, toupper((unsigned char)*end))) {
		int shift = 10 * (int)(strchr(units, toupper((unsigned char)*end)) - units + 1);

		if (v > (INT64_MAX >> shift) || v < 0)
			errno = ERANGE;
		v = errno ? v : v << shift;
		end++;
	}
	if (end == text || *end || errno)
		return err_set(err, ERR_INVALID, "%s: \"%s\" is not a whole number", r->name, text);
	if (v < r->min || v > r->max)
		return err_set(err, ERR_INVALID, "%s: %lld is outside %lld to %lld", r->name,
			       (long long)v, (long long)r->min, (long long)r->max);
	*ret = v;
	return 0;
}

static bool choice_ok(const char *choices, const char *text)
{
	size_t n = strlen(text);

	for (const char *p = choices; *p; p += strcspn(p, "|"), p += *p == '|')
		if (strcspn(p, "|") == n && strncmp(p, text, n) == 0)
			return true;
	return false;
}

/* The daemon and its roles need one meaning of a path, whatever their working directory. */
static char *path_absolute(const char *text)
{
	char cwd[PATH_MAX], out[2 * PATH_MAX];

	if (*text == '/' || !getcwd(cwd, sizeof(cwd)))
		return strdup(text);
	snprintf(out, sizeof(out), "%s/%s", cwd, text);
	return strdup(out);
}

static int config_set(struct config *c, const struct config_row *r, const char *text,
		      struct err *err)
{
	char *at = (char *)c + r->offset;

	switch (r->type) {
	case CFG_INT:
	case CFG_BYTES:
		return parse_int(r, text, (int64_t *)at, err);
	case CFG_BOOL:
		if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
			return err_set(err, ERR_INVALID, "%s: must be true or false", r->name);
		*(bool *)at = strcmp(text, "true") == 0;
		return 0;
	case CFG_CHOICE:
		if (!choice_ok(r->choices, text))
			return err_set(err, ERR_INVALID, "%s: must be one of %s", r->name,
				       r->choices);
		/* fall through */
	case CFG_STR:
	case CFG_PATH:
		free(*(char **)at);
		*(char **)at = r->type == CFG_PATH ? path_absolute(text) : strdup(text);
		if (!*text) {
			free(*(char **)at);
			*(char **)at = NULL;
		}
		return 0;
	}
	return 0;
}

static const struct config_row *row_find(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++)
		if (strlen(config_rows[i].name) == n && strncmp(config_rows[i].name, name, n) == 0)
			return &config_rows[i];
	return NULL;
}

static void env_name(const struct config_row *r, char out[64])
{
	int n = snprintf(out, 64, "CAISSON_%s", r->name);

	for (int i = 0; i < n; i++)
		out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static int config_env(struct config *c, struct err *err)
{
	char name[64];

	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		const char *text;

		env_name(&config_rows[i], name);
		text = getenv(name);
		if (text && config_set(c, &config_rows[i], text, err) < 0)
			return err_wrap(err, "environment %s", name);
	}
	return 0;
}

static char *trim(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	n = strlen(s);
	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	return s;
}

static int config_line(struct config *c, char *line, struct err *err)
{
	char *text = trim(line), *eq;
	const struct config_row *r;

	if (!*text || *text == '#')
		return 0;
	eq = strchr(text, '=');
	if (!eq)
		return err_set(err, ERR_INVALID, "\"%s\" is not \"name = value\"", text);
	*eq = '\0';
	text = trim(text);
	r = row_find(text, strlen(text));
	if (!r)
		return err_set(err, ERR_INVALID, "unknown setting \"%s\"", text);
	return config_set(c, r, trim(eq + 1), err);
}

/* What was read of the file; it may hold the first key, so nothing of it stays in memory. */
struct config_text {
	char file[CONFIG_LINE_MAX], line[CONFIG_LINE_MAX];
};

static int config_lines(struct config *c, struct config_text *t, const char *path, bool must,
			struct err *err)
{
	auto_fclose FILE *f = fopen(path, "re");
	int n = 0;

	if (!f && !must && errno == ENOENT)
		return 0;
	if (!f)
		return err_errno(err, ERR_INVALID, errno, "open configuration %s", path);
	setvbuf(f, t->file, _IOFBF, sizeof(t->file));
	while (fgets(t->line, sizeof(t->line), f)) {
		n++;
		if (config_line(c, t->line, err) < 0)
			return err_wrap(err, "%s line %d", path, n);
	}
	return 0;
}

static int config_file(struct config *c, const char *path, bool must, struct err *err)
{
	struct config_text t;
	int rc = config_lines(c, &t, path, must, err);

	explicit_bzero(&t, sizeof(t));
	return rc;
}

/* One flag at argv[*i]; moves *i over a separate value. */
static int config_flag(struct config *c, int argc, char **argv, int *i, bool apply, struct err *err)
{
	const char *arg = argv[*i] + 2, *eq = strchr(arg, '=');
	size_t n = eq ? (size_t)(eq - arg) : strlen(arg);
	const struct config_row *r = row_find(arg, n);
	const char *value = eq ? eq + 1 : NULL;

	for (size_t k = 0; k < ARRAY_LEN(config_actions); k++) {
		if (strcmp(config_actions[k].name, arg) != 0)
			continue;
		*(bool *)((char *)c + config_actions[k].offset) = true;
		return 0;
	}
	if (!r && !(n == 6 && strncmp(arg, "config", 6) == 0))
		return err_set(err, ERR_INVALID, "unknown flag --%.*s (see --help)", (int)n, arg);
	if (!value && r && r->type == CFG_BOOL)
		value = "true";
	if (!value && *i + 1 < argc)
		value = argv[++*i];
	if (!value)
		return err_set(err, ERR_INVALID, "--%.*s needs a value", (int)n, arg);
	if (!r) {
		free(c->config_file);
		c->config_file = strdup(value);
		return 0;
	}
	return apply ? config_set(c, r, value, err) : 0;
}

/* Flags are walked twice: first for --config alone, last to win over the other sources. */
static int config_flags(struct config *c, int argc, char **argv, bool apply, struct err *err)
{
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--", 2) != 0 || !argv[i][2])
			return err_set(err, ERR_INVALID, "unexpected argument \"%s\" (see --help)",
				       argv[i]);
		if (config_flag(c, argc, argv, &i, apply, err) < 0)
			return -1;
	}
	return 0;
}

int config_load(struct config *c, int argc, char **argv, struct err *err)
{
	*c = (struct config){0};
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++)
		if (config_rows[i].def &&
		    config_set(c, &config_rows[i], config_rows[i].def, err) < 0)
			return -1;
	if (config_flags(c, argc, argv, false, err) < 0)
		return -1;
	if (config_file(c, c->config_file ? c->config_file : CONFIG_FILE_DEFAULT,
			c->config_file != NULL, err) < 0)
		return -1;
	if (config_env(c, err) < 0)
		return -1;
	return config_flags(c, argc, argv, true, err);
}

void config_done(struct config *c)
{
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++)
		if (config_rows[i].type == CFG_STR || config_rows[i].type == CFG_PATH ||
		    config_rows[i].type == CFG_CHOICE)
			free(*(char **)((char *)c + config_rows[i].offset));
	free(c->config_file);
	*c = (struct config){0};
}

void config_print(const struct config *c, FILE *out)
{
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		const struct config_row *r = &config_rows[i];
		const char *at = (const char *)c + r->offset;

		fprintf(out, "%s = ", r->name);
		if (r->type == CFG_INT || r->type == CFG_BYTES)
			fprintf(out, "%lld\n", (long long)*(const int64_t *)at);
		else if (r->type == CFG_BOOL)
			fprintf(out, "%s\n", *(const bool *)at ? "true" : "false");
		else if (*(char *const *)at && strcmp(r->name, "admin-key") == 0)
			fprintf(out, "(set)\n");
		else
			fprintf(out, "%s\n", *(char *const *)at ? *(char *const *)at : "");
	}
}

void config_print_docs(FILE *out)
{
	char env[64];

	fprintf(out,
		"# Configuration\n\nPrinted by `caissond --print-config-docs`. Later sources "
		"win: default, configuration file (`--config FILE`, else `%s` if it exists, "
		"lines of `name = value`), environment, flag.\n\n"
		"| flag and name | environment | default | meaning |\n|---|---|---|---|\n",
		CONFIG_FILE_DEFAULT);
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++) {
		const struct config_row *r = &config_rows[i];

		env_name(r, env);
		fprintf(out, "| `--%s` | `%s` | %s%s%s | %s", r->name, env, r->def ? "`" : "",
			r->def ? r->def : "unset", r->def ? "`" : "", r->doc);
		if (r->choices)
			fprintf(out, " One of `%s`.", r->choices);
		if (r->type == CFG_INT)
			fprintf(out, " Range %lld to %lld.", (long long)r->min, (long long)r->max);
		if (r->type == CFG_BYTES)
			fprintf(out, " Bytes; K, M, G, T allowed.");
		fprintf(out, " |\n");
	}
}

void config_print_help(FILE *out)
{
	fprintf(out, "usage: caissond [--flag value]...     run the daemon in the foreground\n"
		     "       caissond check [--flag value]... test what this machine can do\n\n");
	for (size_t i = 0; i < ARRAY_LEN(config_rows); i++)
		fprintf(out, "  --%-18s %s%s%s%s\n", config_rows[i].name, config_rows[i].doc,
			config_rows[i].def ? " [" : "",
			config_rows[i].def ? config_rows[i].def : "",
			config_rows[i].def ? "]" : "");
	fprintf(out, "  --%-18s %s\n", "config", "Configuration file to read.");
	for (size_t i = 0; i < ARRAY_LEN(config_actions); i++)
		fprintf(out, "  --%-18s %s\n", config_actions[i].name, config_actions[i].doc);
}
