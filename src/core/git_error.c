/*
 * git_error.c - what git prints when it fails, as an error of the contract.
 *
 * git has one exit code for most failures, so the kind is read from its texts, which are the
 * untranslated ones (git_run.c sets the locale). Lines of the remote side are not looked at: a
 * server could otherwise choose the kind. Order matters: a refused push also "failed to push".
 */
#include <string.h>

#include "base/utf8.h"
#include "core/git_int.h"

#define TEXT_MAX 400

static const struct {
	const char *text;
	enum err_code code;
	const char *tag;
} kinds[] = {
	{"[remote rejected]", ERR_UNPROCESSABLE, "GIT_REMOTE_REJECTED"},
	{"[rejected]", ERR_CONFLICT, "GIT_PUSH_REJECTED"},
	{"Authentication failed for", ERR_UNAUTHORIZED, "GIT_AUTH_FAILED"},
	{"could not read Username", ERR_UNAUTHORIZED, "GIT_AUTH_FAILED"},
	{"could not read Password", ERR_UNAUTHORIZED, "GIT_AUTH_FAILED"},
	{"Permission denied (", ERR_UNAUTHORIZED, "GIT_AUTH_FAILED"},
	{"returned error: 401", ERR_UNAUTHORIZED, "GIT_AUTH_FAILED"},
	{"returned error: 403", ERR_FORBIDDEN, NULL},
	{"returned error: 404", ERR_NOT_FOUND, "GIT_REPO_NOT_FOUND"},
	{"detected dubious ownership", ERR_FORBIDDEN, NULL},
	{"No such remote", ERR_NOT_FOUND, NULL},
	{"Remote branch ", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"couldn't find remote ref", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"src refspec ", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"invalid reference", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"unknown revision", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"bad revision", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"Failed to resolve '", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"Needed a single revision", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"reference is not a tree", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"could not resolve ", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"not our ref", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"did not match any file", ERR_NOT_FOUND, "FILE_NOT_FOUND"},
	{"is outside repository", ERR_INVALID, NULL},
	{"ignored by one of your .gitignore", ERR_INVALID, NULL},
	{"already exists and is not an empty", ERR_CONFLICT, NULL},
	{"a branch named", ERR_CONFLICT, "GIT_BRANCH_EXISTS"},
	{"cannot lock ref", ERR_CONFLICT, "GIT_BRANCH_EXISTS"}, /* a/b beside a */
	{"Cannot delete branch", ERR_CONFLICT, NULL},
	{"cannot delete branch", ERR_CONFLICT, NULL},
	{"error: branch '", ERR_NOT_FOUND, "GIT_BRANCH_NOT_FOUND"},
	{"would be overwritten by", ERR_CONFLICT, "GIT_DIRTY_WORKTREE"},
	{"commit your changes or stash", ERR_CONFLICT, "GIT_DIRTY_WORKTREE"},
	{"not uptodate. Cannot merge", ERR_CONFLICT, "GIT_DIRTY_WORKTREE"},
	{"CONFLICT (", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"unmerged files", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"is unmerged", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"have not concluded your merge", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"resolve your current index first", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"in the middle of a merge", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"refusing to merge unrelated", ERR_CONFLICT, "GIT_MERGE_CONFLICT"},
	{"nothing to commit", ERR_CONFLICT, NULL},
	{"nothing added to commit", ERR_CONFLICT, NULL},
	{"no changes added to commit", ERR_CONFLICT, NULL},
	{"index.lock", ERR_CONFLICT, NULL},
	{"empty commit message", ERR_INVALID, NULL},
	{"empty ident name", ERR_INVALID, NULL},
	{"name consists only of disallowed", ERR_INVALID, NULL},
	{"Please tell me who you are", ERR_INVALID, NULL},
	{"does not contain a section", ERR_INVALID, NULL},
	{"invalid key", ERR_INVALID, NULL},
	{"bad config", ERR_CONFLICT, NULL},
	{"No space left on device", ERR_LIMIT, NULL},
	{"Disk quota exceeded", ERR_LIMIT, NULL},
	{"repository '", ERR_NOT_FOUND, "GIT_REPO_NOT_FOUND"}, /* '…' not found, does not exist */
	{"does not appear to be a git repository", ERR_NOT_FOUND, "GIT_REPO_NOT_FOUND"},
	{"not a git repository", ERR_NOT_FOUND, "GIT_REPO_NOT_FOUND"},
	{"can only be used inside a git repo", ERR_NOT_FOUND, "GIT_REPO_NOT_FOUND"},
	{"must be run in a work tree", ERR_CONFLICT, NULL},
	{"ermission denied", ERR_FORBIDDEN, "FILE_ACCESS_DENIED"},
	{"unable to access '", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"unable to connect", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"Could not read from remote", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"early EOF", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"RPC failed", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"unexpected disconnect", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"hung up unexpectedly", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
	{"not valid: is this a git repository", ERR_UPSTREAM, "GIT_TRANSPORT_FAILED"},
};

/* One line of text, [at, at + n). */
struct line {
	const char *at;
	size_t n;
};

static bool line_next(const char **p, struct line *ret)
{
	if (!**p)
		return false;
	ret->at = *p;
	ret->n = strcspn(*p, "\n\r");
	*p += ret->n;
	*p += **p != '\0';
	return true;
}

static bool line_has(const struct line *l, const char *text)
{
	return memmem(l->at, l->n, text, strlen(text)) != NULL;
}

static bool line_starts(const struct line *l, const char *text)
{
	return l->n >= strlen(text) && memcmp(l->at, text, strlen(text)) == 0;
}

/* Whether a line says why git failed. */
static bool line_counts(const struct line *l)
{
	return !line_starts(l, "remote: ") && !line_starts(l, "warning: ") &&
	       !line_starts(l, "hint: ");
}

static bool find_text(const char *in, const char *text, struct line *ret)
{
	while (line_next(&in, ret))
		if (line_counts(ret) && line_has(ret, text))
			return true;
	return false;
}

/* The line for people when no kind fits: what git calls fatal or an error, else the last. */
static struct line find_any(const char *in)
{
	struct line l, best = {"", 0};
	bool named = false;

	while (line_next(&in, &l)) {
		bool names = line_starts(&l, "fatal: ") || line_starts(&l, "error: ");

		if (l.n && (names || !named))
			best = l;
		if (names && named)
			break;
		named = named || names;
	}
	return best;
}

/* The line without the word fatal, control characters and the secret. */
static void text_of(const struct line *l, const char *secret, char out[TEXT_MAX])
{
	static const char *const words[] = {"fatal: ", "error: ", " ! "};
	struct line from = *l;
	size_t n = 0, skip = secret ? strlen(secret) : 0;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (line_starts(&from, words[i])) {
			from.at += strlen(words[i]);
			from.n -= strlen(words[i]);
		}
	while (from.n && n + 4 < TEXT_MAX) {
		if (skip && from.n >= skip && memcmp(from.at, secret, skip) == 0) {
			memcpy(out + n, "***", 3);
			n += 3;
			from.at += skip;
			from.n -= skip;
			continue;
		}
		out[n++] = (unsigned char)*from.at < 32 || *from.at == 127 ? ' ' : *from.at;
		from.at++;
		from.n--;
	}
	out[utf8_floor(out, n)] = '\0';
}

int git_error_set(const char *verb, const char *errors, const char *output, const char *secret,
		  struct err *err)
{
	enum err_code code = ERR_UNPROCESSABLE;
	const char *tag = NULL;
	char text[TEXT_MAX];
	struct line l = {"", 0};
	size_t i = 0;

	while (i < ARRAY_LEN(kinds) && !find_text(errors, kinds[i].text, &l) &&
	       !find_text(output, kinds[i].text, &l))
		i++;
	if (i < ARRAY_LEN(kinds)) {
		code = kinds[i].code;
		tag = kinds[i].tag;
	} else {
		l = find_any(errors);
		if (!l.n)
			l = find_any(output);
	}
	text_of(&l, secret && *secret ? secret : NULL, text);
	return err_tagged(err, code, tag, "git %s: %s", verb, text[0] ? text : "failed");
}
