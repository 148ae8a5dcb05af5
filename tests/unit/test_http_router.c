/*
 * test_http_router.c - which route a path means.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/router.h"

static const struct http_route control[] = {
	{"GET", "/box", "list", NULL, HTTP_BODY_NONE, 0, 0},
	{"POST", "/box", "create", NULL, HTTP_BODY_WHOLE, 0, 1},
	{"GET", "/box/paged", "paged", NULL, HTTP_BODY_NONE, 0, 2},
	{"GET", "/box/{idOrName}", "get", NULL, HTTP_BODY_NONE, 0, 3},
	{"DELETE", "/box/{idOrName}", "delete", NULL, HTTP_BODY_NONE, 0, 4},
	{"POST", "/box/{idOrName}/start", "start", NULL, HTTP_BODY_NONE, 0, 5},
	{"GET", "/box/{id}/logs/{n}", "logs", NULL, HTTP_BODY_NONE, 0, 6},
	{"DELETE", "/keys/{user}/{name}", "delete_other", NULL, HTTP_BODY_NONE, 0, 7},
};
static const struct http_route native[] = {
	{"GET", "/status", "status", NULL, HTTP_BODY_NONE, 0, 0},
	{"*", "/proxy/{port}/{path*}", "proxy", NULL, HTTP_BODY_NONE, 0, 1},
};
static const struct http_dialect a = {
	.name = "a", .prefix = "/api", .route = control, .nroutes = ARRAY_LEN(control)};
static const struct http_dialect b = {
	.name = "b", .prefix = "/api/native", .route = native, .nroutes = ARRAY_LEN(native)};
static const struct http_dialect *const both[] = {&a, &b};

static struct router *router;

static int setup(void **state)
{
	(void)state;
	router = router_new(both, ARRAY_LEN(both), NULL);
	return router ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	router_free(router);
	return 0;
}

static const char *op_of(const char *method, const char *path, struct route_match *m)
{
	router_find(router, method, path, m);
	return m->route ? m->route->op : "-";
}

static void each_path_has_its_route(void **state)
{
	static const struct {
		const char *method, *path, *op;
	} row[] = {
		{"GET", "/api/box", "list"},
		{"POST", "/api/box", "create"},
		{"GET", "/api/box/", "list"},
		{"GET", "/api/box/paged", "paged"},
		{"GET", "/api/box/x", "get"},
		{"GET", "/api/box/x/", "get"},
		{"DELETE", "/api/box/paged", "delete"},
		{"POST", "/api/box/paged/start", "start"},
		{"POST", "/api/box/a%2Fb/start", "start"},
		{"GET", "/api/box/x/logs/3", "logs"},
		{"HEAD", "/api/box/x", "get"},
		{"GET", "/api/native/status", "status"},
		{"PATCH", "/api/native/proxy/80/a/b/c", "proxy"},
		{"DELETE", "/api/keys/u/n", "delete_other"},
		{"GET", "/api/box//", "-"},
		{"GET", "/api//box", "-"},
		{"GET", "/api/boxx", "-"},
		{"GET", "/api/bo", "-"},
		{"GET", "/", "-"},
		{"GET", "", "-"},
		{"GET", "*", "-"},
		{"GET", "/api/box/x/start/more", "-"},
		{"PUT", "/api/box/x", "-"},
	};
	struct route_match m;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		const char *op = op_of(row[i].method, row[i].path, &m);

		if (strcmp(op, row[i].op) != 0)
			fail_msg("%s %s is %s, not %s", row[i].method, row[i].path, op, row[i].op);
	}
}

static void parameters_come_in_the_patterns_order(void **state)
{
	struct route_match m;
	const char *name;

	(void)state;
	op_of("GET", "/api/box/one/logs/two", &m);
	assert_int_equal(m.nparams, 2);
	assert_memory_equal(m.param[0].at, "one", m.param[0].len);
	assert_memory_equal(m.param[1].at, "two", m.param[1].len);
	assert_int_equal(route_param_name(m.route, 0, &name), 2);
	assert_memory_equal(name, "id", 2);
	assert_int_equal(route_param_name(m.route, 1, &name), 1);
	assert_int_equal(route_param_name(m.route, 2, &name), 0);
}

static void rest_parameter_takes_all_that_follows(void **state)
{
	struct route_match m;
	const char *name;

	(void)state;
	op_of("GET", "/api/native/proxy/80/a/b/", &m);
	assert_int_equal(m.nparams, 2);
	assert_string_equal(m.param[1].at, "a/b/");
	assert_int_equal(route_param_name(m.route, 1, &name), 4);
}

static void wrong_method_names_the_right_ones(void **state)
{
	struct route_match m;

	(void)state;
	op_of("PUT", "/api/box/paged", &m);
	assert_null(m.route);
	assert_string_equal(m.allow, "GET, DELETE");
	op_of("PUT", "/api/nothing", &m);
	assert_string_equal(m.allow, "");
}

static void unknown_path_belongs_to_the_longest_prefix(void **state)
{
	struct route_match m;

	(void)state;
	op_of("GET", "/api/native/nothing", &m);
	assert_ptr_equal(m.dialect, &b);
	op_of("GET", "/api/nothing", &m);
	assert_ptr_equal(m.dialect, &a);
	op_of("GET", "/apinothing", &m);
	assert_null(m.dialect);
}

static void endless_segments_end(void **state)
{
	char path[8192] = "/api";
	struct route_match m;

	(void)state;
	memset(path + 4, '/', sizeof(path) - 5);
	path[sizeof(path) - 1] = '\0';
	assert_string_equal(op_of("GET", path, &m), "-");
	for (size_t i = 4; i + 2 < sizeof(path); i += 2)
		path[i + 1] = 'x';
	assert_string_equal(op_of("GET", path, &m), "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_path_has_its_route),
		cmocka_unit_test(parameters_come_in_the_patterns_order),
		cmocka_unit_test(rest_parameter_takes_all_that_follows),
		cmocka_unit_test(wrong_method_names_the_right_ones),
		cmocka_unit_test(unknown_path_belongs_to_the_longest_prefix),
		cmocka_unit_test(endless_segments_end),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
