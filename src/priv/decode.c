/*
 * decode.c - requests of the api process, read without trust (wire/priv_proto.h).
 *
 * The api reads what the world sends it; were it taken over, this is the door. One row a verb:
 * its decoder, and whether a descriptor must come along. A message is a job only when every
 * byte of it was expected and every value is in range.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "priv/priv.h"

#define NEST_FLAGS (PRIV_START_NET_BLOCK | PRIV_START_NO_NEW_PRIVS | PRIV_START_NEST_USERNS)

static bool decode_nothing(struct wire_in *in, struct job *j)
{
	(void)in;
	(void)j;
	return true;
}

static bool decode_hello(struct wire_in *in, struct job *j)
{
	j->flags = wire_get_u32(in);
	return true;
}

static bool decode_id(struct wire_in *in, struct job *j)
{
	wire_get_str(in, j->id, sizeof(j->id));
	return id_valid(j->id);
}

static bool decode_start(struct wire_in *in, struct job *j)
{
	struct box_spec *s = &j->spec;

	if (!decode_id(in, j))
		return false;
	s->id = j->id;
	s->fresh = wire_get_bool(in);
	j->layers = wire_get_strv(in, PRIV_LAYERS_MAX, &s->nlayers);
	s->layer = (const char *const *)j->layers;
	s->mem_bytes = wire_get_u64(in);
	s->cpu_milli = wire_get_u32(in);
	s->pids_max = wire_get_u32(in);
	s->nofile = wire_get_u32(in);
	s->disk_bytes = wire_get_u64(in);
	s->flags = wire_get_u32(in);
	wire_get_str(in, j->hostname, sizeof(j->hostname));
	s->hostname = j->hostname;
	return !in->bad && (s->flags & ~(uint32_t)NEST_FLAGS) == 0 && box_spec_check(s, NULL) == 0;
}

static bool decode_list(struct wire_in *in, struct job *j)
{
	j->what = wire_get_u8(in);
	wire_get_str(in, j->id, sizeof(j->id));
	return j->what <= PRIV_LIST_UPPERS && (j->id[0] == '\0' || id_valid(j->id));
}

static bool decode_net(struct wire_in *in, struct job *j)
{
	if (!decode_id(in, j))
		return false;
	j->flags = wire_get_u32(in);
	return (j->flags & ~(uint32_t)PRIV_START_NET_BLOCK) == 0;
}

static bool decode_import(struct wire_in *in, struct job *j)
{
	j->max_bytes = wire_get_u64(in);
	return true;
}

static bool decode_layer(struct wire_in *in, struct job *j)
{
	wire_get_str(in, j->layer, sizeof(j->layer));
	return image_layer_id_valid(j->layer);
}

static bool decode_ready(struct wire_in *in, struct job *j)
{
	wire_get_str(in, j->why, sizeof(j->why));
	return !in->bad;
}

static const struct decode_row {
	enum priv_verb verb;
	bool fd;
	bool (*fn)(struct wire_in *in, struct job *j);
} decode_rows[] = {
	{PRIV_HELLO, false, decode_hello},     {PRIV_START, false, decode_start},
	{PRIV_KILL, false, decode_id},	       {PRIV_DELETE, false, decode_id},
	{PRIV_STATS, false, decode_id},	       {PRIV_LIST, false, decode_list},
	{PRIV_NET, false, decode_net},	       {PRIV_IMPORT, true, decode_import},
	{PRIV_DEFAULT, false, decode_nothing}, {PRIV_LAYER_RM, false, decode_layer},
	{PRIV_HOST, false, decode_nothing},    {PRIV_READY, false, decode_ready},
};

struct job *decode_message(const uint8_t *msg, size_t n, int fd)
{
	struct wire_in in = wire_in_on(msg, n);
	struct job *j = job_new();

	if (!j) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	j->fd = fd;
	j->seq = wire_get_u32(&in);
	j->verb = wire_get_u16(&in);
	wire_get_str(&in, j->reqid, sizeof(j->reqid));
	for (size_t i = 0; i < ARRAY_LEN(decode_rows); i++) {
		const struct decode_row *r = &decode_rows[i];

		if (r->verb != j->verb)
			continue;
		if (j->seq != 0 && (fd >= 0) == r->fd && r->fn(&in, j) && wire_in_end(&in))
			return j;
	}
	job_free(j);
	return NULL;
}
