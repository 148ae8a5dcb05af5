/*
 * fuzz_git.c - anything git may print, and any URL: refused, or made of strings inside the text.
 * The first byte chooses the parser.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/git_int.h"
#include "lib/fuzz_replay.h"

static void use(const char *s)
{
	static volatile size_t sum;

	sum += strlen(s);
}

static void try_status(char *text, size_t n)
{
	struct git_status s;

	if (git_parse_status(text, n, &s, NULL) < 0)
		return;
	use(s.branch);
	use(s.upstream);
	for (size_t i = 0; i < s.n; i++) {
		use(s.file[i].name);
		use(s.file[i].extra);
		if (s.file[i].staging > GIT_UNMERGED || s.file[i].worktree > GIT_UNMERGED)
			abort();
	}
	git_status_done(&s);
}

static void try_history(char *text, size_t n)
{
	struct git_history h;

	if (git_parse_history(text, n, &h, NULL) < 0)
		return;
	for (size_t i = 0; i < h.n; i++) {
		use(h.commit[i].hash);
		use(h.commit[i].author);
		use(h.commit[i].email);
		use(h.commit[i].time);
		use(h.commit[i].message);
	}
	git_history_done(&h);
}

static void try_lists(char *text, size_t n)
{
	struct git_remotes r;
	struct git_branches b;
	char *copy = malloc(n + 1);

	if (copy)
		memcpy(copy, text, n + 1);
	if (git_parse_remotes(text, n, &r, NULL) == 0) {
		for (size_t i = 0; i < r.n; i++) {
			use(r.remote[i].name);
			use(r.remote[i].url);
		}
		git_remotes_done(&r);
	}
	if (copy && git_parse_branches(copy, n, &b, NULL) == 0) {
		for (size_t i = 0; i < b.n; i++)
			use(b.name[i]);
		use(b.current);
		git_branches_done(&b);
	}
}

static void try_words(char *text)
{
	auto_git_url struct git_url u = {0};
	struct err err = {0};

	if (git_url_split("url", text, &u, NULL) == 0) {
		use(u.clean);
		if (u.scope && strchr(u.scope, '@'))
			abort();
	}
	git_error_set("x", text, text, "s", &err);
	use(err.msg);
	if (git_check_branch("b", text, NULL) == 0 && *text == '-')
		abort();
	if (git_check_key(text, NULL) == 0 && !strchr(text, '.'))
		abort();
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (!size)
		return 0;
	text = calloc(1, size);
	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	switch (data[0] % 4) {
	case 0:
		try_status(text, size - 1);
		break;
	case 1:
		try_history(text, size - 1);
		break;
	case 2:
		try_lists(text, size - 1);
		break;
	default:
		try_words(text);
	}
	return 0;
}
