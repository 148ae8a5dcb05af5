/*
 * fuzz_priv.c - what a taken-over api process may send the root runner: a message is refused whole
 * or every value of it is in its range. The first byte says whether a descriptor comes along.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "box/box.h"
#include "lib/fuzz_replay.h"
#include "priv/priv.h"

static void need(bool ok)
{
	if (!ok)
		abort();
}

static bool plain(const char *s, size_t cap)
{
	return strnlen(s, cap) < cap;
}

static void start_check(const struct job *j)
{
	const struct box_spec *s = &j->spec;
	struct err err;

	need(s->id == j->id && s->hostname == j->hostname &&
	     plain(j->hostname, sizeof(j->hostname)));
	need(s->nlayers >= 1 && s->nlayers <= PRIV_LAYERS_MAX && !j->layers[s->nlayers]);
	for (size_t i = 0; i < s->nlayers; i++)
		need(!strchr(s->layer[i], '/') && strlen(s->layer[i]) == PRIV_LAYER_ID_LEN - 1);
	need(s->mem_bytes >= PRIV_MEM_MIN && s->mem_bytes <= PRIV_MEM_MAX);
	need(s->cpu_milli >= PRIV_CPU_MILLI_MIN && s->cpu_milli <= PRIV_CPU_MILLI_MAX);
	need(s->pids_max >= PRIV_PIDS_MIN && s->pids_max <= PRIV_PIDS_MAX);
	need(!strpbrk(s->hostname, "/\n \t") && box_spec_check(s, &err) == 0);
}

static void job_check(const struct job *j)
{
	bool fd = j->fd >= 0;

	need(j->seq != 0 && j->verb >= PRIV_HELLO && j->verb <= PRIV_READY);
	need(fd == (j->verb == PRIV_IMPORT) && plain(j->reqid, sizeof(j->reqid)));
	need(plain(j->id, sizeof(j->id)) && (!j->id[0] || id_valid(j->id)));
	need(plain(j->layer, sizeof(j->layer)) && !strchr(j->layer, '/'));
	if (j->verb == PRIV_START)
		start_check(j);
	if (j->verb == PRIV_LAYER_RM)
		need(image_layer_id_valid(j->layer));
	need(plain(j->why, sizeof(j->why)));
	if (j->verb == PRIV_LIST)
		need(j->what <= PRIV_LIST_UPPERS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct job *j;
	int fd = -1;

	if (size < 1 || size > PRIV_MSG_MAX)
		return 0;
	if (data[0] & 1)
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	j = decode_message(data + 1, size - 1, fd);
	if (j)
		job_check(j);
	else if (fd >= 0)
		need(fcntl(fd, F_GETFD) < 0); /* closed with the refused message */
	job_free(j);
	return 0;
}
