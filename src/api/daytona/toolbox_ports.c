/*
 * toolbox_ports.c - who listens inside a sandbox, and what only the runner may say (contract
 * §3.14).
 */
#include "api/daytona/toolbox.h"

/* The range the contract gives in-use. */
#define PORT_MIN 3000
#define PORT_MAX 9999

int daytona_toolbox_GetPorts(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free uint16_t *port = NULL;
	struct jw w;
	size_t n;

	if (sandbox_ports(api_core(req), api_who(req), toolbox_id(req), &port, &n, err) < 0)
		return -1;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_key(&w, "ports");
	jw_open(&w, '[');
	for (size_t i = 0; i < n; i++)
		jw_int(&w, port[i]);
	jw_close(&w, ']');
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

int daytona_toolbox_IsPortInUse(struct http_req *req, struct err *err)
{
	auto_buf struct buf b = BUF_INIT(API_REPLY_MAX);
	auto_free uint16_t *port = NULL;
	bool in_use = false;
	int64_t want;
	struct jw w;
	size_t n;

	if (api_param_int(req, "port", PORT_MIN, PORT_MAX, &want, err) < 0 ||
	    sandbox_ports(api_core(req), api_who(req), toolbox_id(req), &port, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		in_use = in_use || port[i] == want;
	jw_init(&w, &b);
	jw_open(&w, '{');
	jw_kbool(&w, "isInUse", in_use);
	jw_close(&w, '}');
	return api_reply(req, 200, &w, err);
}

/* A runner of the contract gives its toolbox a token by this; ours needs none. */
int daytona_toolbox_Initialize(struct http_req *req, struct err *err)
{
	(void)req;
	return err_set(err, ERR_FORBIDDEN, "init: not for clients");
}
