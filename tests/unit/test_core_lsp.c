/*
 * test_core_lsp.c - the thread of a language server and the calls that wait for it, over pipes to
 * a stand-in. Run it with the thread sanitizer too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "core/exec.h"
#include "core/lsp_int.h"
#include "corebox.h"
#include "lsp/frame.h"
#include "lsp/msg.h"
#include "lsp/say.h"

struct standin {
	struct corebox box;
	struct lsp_server *server;
	int in, out, conn; /* its ends */
	bool mute;
	pthread_t thread;
};

/* Answers each documentSymbol with one symbol that is named as the document. */
static void standin_answer(struct standin *s, const char *body)
{
	auto_buf struct buf out = BUF_INIT(4096), frame = BUF_INIT(8192);
	const char *id = strstr(body, "\"id\":"), *uri = strstr(body, "file://");
	long long n = id ? strtoll(id + 5, NULL, 10) : -1;

	if (n < 0 || !uri || s->mute)
		return;
	buf_addf(&out, NULL,
		 "{\"id\":%lld,\"result\":[{\"name\":\"%.*s\",\"kind\":1,\"range\":{}}]}", n,
		 (int)strcspn(uri, "\""), uri);
	lsp_frame_put(&frame, buf_str(&out), out.len, NULL);
	assert_int_equal(write(s->out, frame.data, frame.len), frame.len);
}

static void *standin_run(void *arg)
{
	struct standin *s = arg;
	struct lsp_frames f;
	char chunk[4096];
	const char *body;
	ssize_t got;
	size_t n;

	lsp_frames_init(&f);
	while ((got = read(s->in, chunk, sizeof(chunk))) > 0) {
		assert_int_equal(lsp_frames_feed(&f, chunk, (size_t)got, NULL), 0);
		while (lsp_frames_next(&f, &body, &n, NULL) > 0) {
			auto_free char *text = strndup(body, n);

			standin_answer(s, text);
		}
	}
	lsp_frames_done(&f);
	return NULL;
}

static void standin_start(struct standin *s, bool mute)
{
	struct exec_handle *h = calloc(1, sizeof(*h));
	int in[2], out[2], conn[2];

	*s = (struct standin){.mute = mute};
	corebox_init(&s->box);
	corebox_open(&s->box);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, conn), 0);
	s->in = in[0];
	s->out = out[1];
	s->conn = conn[0];
	h->core = s->box.core;
	h->slot = slot_get(s->box.core, "none");
	h->proc = (struct agent_proc){.conn = conn[1], .in = in[1], .out = out[0], .err = -1};
	for (size_t i = 0; i < 3; i++)
		fcntl((int[]){conn[1], in[1], out[0]}[i], F_SETFL, O_NONBLOCK);
	s->server = lsp_server_new(s->box.core, "none", lsp_language_get("python"), "/p", NULL);
	assert_non_null(s->server);
	s->server->state = LSP_READY;
	assert_int_equal(lsp_server_run(s->server, h, NULL), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, standin_run, s), 0);
}

/* The set isn't asked: this server isn't in it. */
static void standin_stop(struct standin *s)
{
	pthread_mutex_lock(&s->server->lock);
	s->server->stop = true;
	pthread_mutex_unlock(&s->server->lock);
	lsp_server_wake(s->server);
	pthread_join(s->thread, NULL);
	assert_true(lsp_servers_end(&s->box.core->lsp, 5000));
	lsp_server_put(s->server);
	close(s->in);
	close(s->out);
	close(s->conn);
	corebox_done(&s->box);
}

static int ask(struct lsp_server *s, const char *uri, int64_t ms, struct lsp_symbols *ret,
	       struct err *err)
{
	struct lsp_call call = {.want = LSP_WANT_SYMBOLS, .uri = uri, .ret = ret};
	int rc;

	if (lsp_call_begin(s, &call, err) < 0)
		return -1;
	rc = lsp_say_document_symbols(&s->out, call.id, uri, err);
	return lsp_call_end(s, &call, rc, -1, clock_mono_ms() + ms, err);
}

#define ASKERS 8
#define ASKED  200

struct asker {
	struct lsp_server *server;
	int number;
	int right;
	pthread_t thread;
};

static void *asker_run(void *arg)
{
	struct asker *a = arg;

	for (int i = 0; i < ASKED; i++) {
		struct lsp_symbols got = {0};
		char uri[64];

		snprintf(uri, sizeof(uri), "file:///%d/%d", a->number, i);
		if (ask(a->server, uri, 20000, &got, NULL) == 0)
			a->right += got.n == 1 && strcmp(got.v[0].name, uri) == 0 &&
				    strcmp(got.v[0].uri, uri) == 0;
		lsp_symbols_done(&got);
	}
	return NULL;
}

static void parallel_calls_get_their_own_answers(void **state)
{
	struct asker a[ASKERS];
	struct standin s;

	(void)state;
	standin_start(&s, false);
	for (int i = 0; i < ASKERS; i++) {
		a[i] = (struct asker){.server = s.server, .number = i};
		assert_int_equal(pthread_create(&a[i].thread, NULL, asker_run, &a[i]), 0);
	}
	for (int i = 0; i < ASKERS; i++) {
		pthread_join(a[i].thread, NULL);
		assert_int_equal(a[i].right, ASKED);
	}
	standin_stop(&s);
}

static void a_call_without_answer_ends_at_its_deadline(void **state)
{
	struct lsp_symbols got = {0};
	struct standin s;
	struct err err;

	(void)state;
	standin_start(&s, true);
	assert_int_equal(ask(s.server, "file:///x", 50, &got, &err), -1);
	assert_int_equal(err.code, ERR_TIMEOUT);
	assert_null(s.server->calls);
	standin_stop(&s);
}

static void *hang_up(void *arg)
{
	struct standin *s = arg;
	bool waits = false;

	while (!waits) {
		pthread_mutex_lock(&s->server->lock);
		waits = s->server->calls != NULL;
		pthread_mutex_unlock(&s->server->lock);
		usleep(1000);
	}
	shutdown(s->conn, SHUT_RDWR);
	return NULL;
}

static void waiting_calls_end_with_the_process(void **state)
{
	struct lsp_symbols got = {0};
	struct standin s;
	pthread_t other;
	struct err err;

	(void)state;
	standin_start(&s, true);
	assert_int_equal(pthread_create(&other, NULL, hang_up, &s), 0);
	assert_int_equal(ask(s.server, "file:///x", 20000, &got, &err), -1);
	assert_string_equal(err.tag, "LSP_SERVER_CRASHED");
	pthread_join(other, NULL);
	assert_int_equal(ask(s.server, "file:///x", 20000, &got, &err), -1);
	assert_string_equal(err.tag, "LSP_SERVER_NOT_INITIALIZED");
	standin_stop(&s);
}

static void what_a_server_does_not_read_has_a_ceiling(void **state)
{
	auto_free char *text = calloc(1, LSP_TEXT_MAX + 1);
	struct lsp_text t = {.uri = "file:///x", .language = "python", .text = text};
	struct lsp_server *s;
	struct corebox box;
	struct err err;
	int n = 0;

	(void)state;
	memset(text, '"', LSP_TEXT_MAX);
	t.n = LSP_TEXT_MAX;
	corebox_init(&box);
	corebox_open(&box);
	s = lsp_server_new(box.core, "none", lsp_language_get("python"), "/p", &err);
	assert_non_null(s);
	while (n < 100 && lsp_say_open(&s->out, &t, &err) == 0)
		n++;
	assert_in_range(n, 3, 5);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	lsp_server_put(s);
	corebox_done(&box);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parallel_calls_get_their_own_answers),
		cmocka_unit_test(a_call_without_answer_ends_at_its_deadline),
		cmocka_unit_test(waiting_calls_end_with_the_process),
		cmocka_unit_test(what_a_server_does_not_read_has_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
