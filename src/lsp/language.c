/*
 * language.c - see language.h.
 *
 * pylsp: checks of style are off, since nobody is shown what they find; names that a file only
 * imports are no symbols of it. typescript-language-server: no second process for syntax, no
 * download of types.
 */
#include "lsp/language.h"

#include <stddef.h>
#include <string.h>

#include "base/scope.h"

#define TS_OPTIONS                                                                                 \
	"{\"hostInfo\":\"caisson\",\"disableAutomaticTypingAcquisition\":true,"                    \
	"\"tsserver\":{\"useSyntaxServer\":\"never\"},"                                            \
	"\"preferences\":{\"includeCompletionsForModuleExports\":false}}"
#define TS_ARGV                                                                                    \
	{                                                                                          \
		"typescript-language-server", "--stdio"                                            \
	}

static const struct lsp_language languages[] = {
	{"python",
	 {"pylsp"},
	 "{}",
	 "{\"pylsp\":{\"plugins\":{"
	 "\"pycodestyle\":{\"enabled\":false},\"pyflakes\":{\"enabled\":false},"
	 "\"mccabe\":{\"enabled\":false},\"pydocstyle\":{\"enabled\":false},"
	 "\"pylint\":{\"enabled\":false},\"flake8\":{\"enabled\":false},"
	 "\"autopep8\":{\"enabled\":false},\"yapf\":{\"enabled\":false},"
	 "\"preload\":{\"enabled\":false},\"jedi_symbols\":{\"include_import_symbols\":false}}}}",
	 false,
	 {".py", ".pyi"}},
	{"typescript",
	 TS_ARGV,
	 TS_OPTIONS,
	 NULL,
	 true,
	 {".ts", ".tsx", ".mts", ".cts", ".js", ".jsx"}},
	{"javascript",
	 TS_ARGV,
	 TS_OPTIONS,
	 NULL,
	 true,
	 {".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx"}},
};

static const char *const documents[][2] = {
	{".py", "python"},	     {".pyi", "python"},     {".tsx", "typescriptreact"},
	{".ts", "typescript"},	     {".mts", "typescript"}, {".cts", "typescript"},
	{".jsx", "javascriptreact"}, {".js", "javascript"},  {".mjs", "javascript"},
	{".cjs", "javascript"},
};

const struct lsp_language *lsp_language_get(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

static bool ends_with(const char *path, const char *ending)
{
	size_t n = strlen(path), k = strlen(ending);

	return n > k && strcmp(path + n - k, ending) == 0;
}

const char *lsp_language_of(const struct lsp_language *l, const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(documents); i++)
		if (ends_with(path, documents[i][0]))
			return documents[i][1];
	return l->name;
}

bool lsp_language_has(const struct lsp_language *l, const char *path)
{
	for (size_t i = 0; l->endings[i]; i++)
		if (ends_with(path, l->endings[i]))
			return true;
	return false;
}
