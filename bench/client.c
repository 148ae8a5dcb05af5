/*
 * client.c - the measured operations of tools/bench. Each prints one line a sample: microseconds
 * and, where there is one, an id. Statistics are made by the caller.
 *
 *   client HOST PORT KEY create N BODY           POST /api/sandbox, one after another
 *   client HOST PORT KEY paced N BODY MS EVERY   the same with a pause after every few
 *   client HOST PORT KEY burst N BODY            the same from N connections at once
 *   client HOST PORT KEY cycle N BODY COMMAND    create, run COMMAND, delete
 *   client HOST PORT KEY exec N ID COMMAND       POST …/process/execute
 *   client HOST PORT KEY delete                  ids on standard input
 *   client HOST PORT KEY call N METHOD PATH
 *   client HOST PORT KEY post N PATH BODY
 *   client HOST PORT KEY interp N PATH CODE      run CODE over a WebSocket of its own
 *   client HOST PORT KEY echo N PATH             a byte into a new terminal, and its echo
 *   client HOST PORT KEY streams SECONDS         paths on standard input, read all at once:
 *                                                bytes of each in place of a time
 *   client HOST PORT KEY put N METHOD PATH SIZE
 *   client HOST PORT KEY drain N PATH
 *   client - - - spawn N PROGRAM ARG…            run and wait
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "conn.h"
#include "wsconn.h"

#define BURST_MAX 1000
#define ID_MAX	  64
#define PATH_LEN  4096

struct client {
	const char *host, *port, *key;
	struct conn c;
};

static int die(const struct conn *c, const char *what)
{
	fprintf(stderr, "client: %s: status %d: %.300s\n", what, c->status,
		c->body ? c->body : "connection broke");
	return 1;
}

static int sample(int64_t began, const char *id)
{
	return printf("%lld %s\n", (long long)(now_us() - began), id) < 0;
}

static int create_one(struct conn *c, const char *body, char id[ID_MAX])
{
	int status = conn_call(c, "POST", "/api/sandbox", body);
	char state[32];
	if (status < 200 || status > 299)
		return -1;
	conn_field(c, "id", id, ID_MAX);
	conn_field(c, "state", state, sizeof(state));
	return strcmp(state, "started") ? -1 : 0;
}

static int exec_one(struct conn *c, const char *id, const char *command)
{
	char path[PATH_LEN], body[PATH_LEN], code[16];
	snprintf(path, sizeof(path), "/toolbox/%s/process/execute", id);
	snprintf(body, sizeof(body), "{\"command\":\"%s\"}", command);
	if (conn_call(c, "POST", path, body) != 200)
		return -1;
	conn_field(c, "exitCode", code, sizeof(code));
	return strcmp(code, "0") ? -1 : 0;
}

static int delete_one(struct conn *c, const char *id)
{
	char path[PATH_LEN];
	snprintf(path, sizeof(path), "/api/sandbox/%s", id);
	int status = conn_call(c, "DELETE", path, NULL);
	return status >= 200 && status < 300 ? 0 : -1;
}

static int op_create(struct client *k, int n, char **arg)
{
	char id[ID_MAX];
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		if (create_one(&k->c, arg[0], id) < 0)
			return die(&k->c, "create");
		sample(began, id);
	}
	return 0;
}

static int op_paced(struct client *k, int n, char **arg)
{
	long ms = strtol(arg[1], NULL, 10);
	int every = (int)strtol(arg[2], NULL, 10);
	struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	for (int i = 0; i < n; i++) {
		if (op_create(k, 1, arg) != 0)
			return 1;
		if (every > 0 && (i + 1) % every == 0)
			nanosleep(&pause, NULL);
	}
	return 0;
}

static int op_cycle(struct client *k, int n, char **arg)
{
	char id[ID_MAX];
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		if (create_one(&k->c, arg[0], id) < 0 || exec_one(&k->c, id, arg[1]) < 0 ||
		    delete_one(&k->c, id) < 0)
			return die(&k->c, "cycle");
		sample(began, id);
	}
	return 0;
}

static int op_exec(struct client *k, int n, char **arg)
{
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		if (exec_one(&k->c, arg[0], arg[1]) < 0)
			return die(&k->c, "exec");
		sample(began, "");
	}
	return 0;
}

static int op_delete(struct client *k, int n, char **arg)
{
	char id[ID_MAX];
	(void)n;
	(void)arg;
	while (scanf("%63s", id) == 1) {
		int64_t began = now_us();
		if (delete_one(&k->c, id) < 0)
			return die(&k->c, "delete");
		sample(began, id);
	}
	return 0;
}

static int op_call(struct client *k, int n, char **arg)
{
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		int status = conn_call(&k->c, arg[0], arg[1], NULL);
		if (status < 200 || status > 299)
			return die(&k->c, arg[1]);
		sample(began, "");
	}
	return 0;
}

static int op_post(struct client *k, int n, char **arg)
{
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		int status = conn_call(&k->c, "POST", arg[0], arg[1]);
		if (status < 200 || status > 299)
			return die(&k->c, arg[0]);
		sample(began, "");
	}
	return 0;
}

/* Until the frame that says it is done; the close that follows is not in the sample. */
static int run_code(struct conn *c, const char *path, const char *code)
{
	char text[PATH_LEN];
	int n = snprintf(text, sizeof(text), "{\"code\":\"%s\"}", code);
	if (ws_upgrade(c, path) < 0 || ws_send(c, WS_TEXT, text, (size_t)n) < 0)
		return -1;
	int op;
	while ((op = ws_read(c)) == WS_TEXT)
		if (memmem(c->body, c->body_len, "completed", 9))
			return 0;
	return -1;
}

static int op_interp(struct client *k, int n, char **arg)
{
	for (int i = 0; i < n; i++) {
		struct conn c;
		int64_t began = now_us();
		if (conn_open(&c, k->host, k->port, k->key) < 0 || run_code(&c, arg[0], arg[1]) < 0)
			return die(&c, "interp");
		sample(began, "");
		conn_close(&c);
	}
	return 0;
}

static int wait_for(struct conn *c, const char *what, size_t n)
{
	int op;
	while ((op = ws_read(c)) > 0 && op != WS_CLOSE)
		if (op == WS_BINARY && memmem(c->body, c->body_len, what, n))
			return 0;
	return -1;
}

/* The terminal itself echoes; what it holds of a line nobody reads is bounded by 4095 bytes. */
static int op_echo(struct client *k, int n, char **arg)
{
	static const char start[] = "PS1=; echo rea''dy; exec sleep 600\n";
	if (ws_upgrade(&k->c, arg[0]) < 0 ||
	    ws_send(&k->c, WS_BINARY, start, sizeof(start) - 1) < 0 ||
	    wait_for(&k->c, "ready\r\n", 7) < 0)
		return die(&k->c, "terminal");
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		if (ws_send(&k->c, WS_BINARY, "~", 1) < 0 || wait_for(&k->c, "~", 1) < 0)
			return die(&k->c, "echo");
		sample(began, "");
	}
	return 0;
}

static int op_put(struct client *k, int n, char **arg)
{
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		int status = conn_put(&k->c, arg[0], arg[1], strtoull(arg[2], NULL, 10));
		if (status < 200 || status > 299)
			return die(&k->c, arg[1]);
		sample(began, "");
	}
	return 0;
}

static int op_drain(struct client *k, int n, char **arg)
{
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		if (conn_drain(&k->c, arg[0]) < 0)
			return die(&k->c, arg[0]);
		sample(began, "");
	}
	return 0;
}

/* ---- many at once ---- */

struct burst {
	struct client *k;
	pthread_barrier_t *go;
	const char *body;
	char id[ID_MAX];
	int64_t us;
	int failed;
};

static void *burst_main(void *arg)
{
	struct burst *b = arg;
	struct conn c;
	b->failed = conn_open(&c, b->k->host, b->k->port, b->k->key) < 0;
	pthread_barrier_wait(b->go);
	int64_t began = now_us();
	if (!b->failed)
		b->failed = create_one(&c, b->body, b->id) < 0 ? die(&c, "create") : 0;
	b->us = now_us() - began;
	conn_close(&c);
	return NULL;
}

static int op_burst(struct client *k, int n, char **arg)
{
	static struct burst b[BURST_MAX];
	static pthread_t thread[BURST_MAX];
	pthread_barrier_t go;
	int failed = 0;
	if (n < 1 || n > BURST_MAX)
		return 1;
	pthread_barrier_init(&go, NULL, (unsigned)n);
	for (int i = 0; i < n; i++) {
		b[i] = (struct burst){.k = k, .go = &go, .body = arg[0]};
		if (pthread_create(&thread[i], NULL, burst_main, &b[i]) != 0)
			return 1;
	}
	for (int i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		failed += b[i].failed;
		printf("%lld %s\n", (long long)b[i].us, b[i].id);
	}
	return failed != 0;
}

struct stream {
	struct client *k;
	char path[PATH_LEN];
	int64_t end_us, bytes;
};

static void *stream_main(void *arg)
{
	struct stream *s = arg;
	struct conn c;
	if (conn_open(&c, s->k->host, s->k->port, s->k->key) == 0 && ws_upgrade(&c, s->path) == 0)
		while (now_us() < s->end_us && ws_read(&c) > 0)
			s->bytes += (int64_t)c.body_len;
	conn_close(&c);
	return NULL;
}

/* n is seconds here. */
static int op_streams(struct client *k, int n, char **arg)
{
	static struct stream s[BURST_MAX];
	static pthread_t thread[BURST_MAX];
	int count = 0, started = 0;
	(void)arg;
	while (count < BURST_MAX && scanf("%4095s", s[count].path) == 1)
		count++;
	for (; started < count; started++) {
		s[started].k = k;
		s[started].end_us = now_us() + (int64_t)n * 1000000;
		if (pthread_create(&thread[started], NULL, stream_main, &s[started]) != 0)
			return 1;
	}
	for (int i = 0; i < count; i++) {
		pthread_join(thread[i], NULL);
		printf("%lld\n", (long long)s[i].bytes);
	}
	return 0;
}

static int op_spawn(struct client *k, int n, char **arg)
{
	extern char **environ;
	(void)k;
	for (int i = 0; i < n; i++) {
		int64_t began = now_us();
		pid_t pid;
		int status;
		if (posix_spawnp(&pid, arg[0], NULL, NULL, arg, environ) != 0 ||
		    waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "client: %s failed\n", arg[0]);
			return 1;
		}
		sample(began, "");
	}
	return 0;
}

static const struct {
	const char *name;
	int args; /* behind N */
	int (*run)(struct client *k, int n, char **arg);
} ops[] = {
	{"create", 1, op_create},   {"paced", 3, op_paced},    {"burst", 1, op_burst},
	{"cycle", 2, op_cycle},	    {"exec", 2, op_exec},      {"call", 2, op_call},
	{"put", 3, op_put},	    {"drain", 1, op_drain},    {"spawn", 1, op_spawn},
	{"post", 2, op_post},	    {"interp", 2, op_interp},  {"echo", 1, op_echo},
	{"streams", 0, op_streams}, {"delete", -1, op_delete},
};

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	struct client k = {.host = argv[1], .port = argv[2], .key = argv[3]};
	int n = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 0;
	if (strcmp(argv[1], "-") && conn_open(&k.c, k.host, k.port, k.key) < 0) {
		perror("client: connect");
		return 1;
	}
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, argv[4]) && argc - 6 >= ops[i].args)
			return ops[i].run(&k, n, argv + 6);
	return 2;
}
