/*
 * image_verbs.c - IMPORT, DEFAULT and LAYER_RM, one after another on their own thread: unpacking
 * takes minutes and must not keep a launcher. The archive is parsed in a confined child.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "priv/priv.h"

#define PROGRESS_MS 250

struct progress {
	struct priv *p;
	const struct job *j;
	int64_t next_ms;
};

static void image_progress(void *arg, uint64_t bytes, uint64_t files)
{
	struct progress *g = arg;
	int64_t now = clock_mono_ms();
	uint8_t buf[256];
	struct wire_out o;

	if (now < g->next_ms)
		return;
	g->next_ms = now + PROGRESS_MS;
	o = peer_message(buf, sizeof(buf), 0, PRIV_EV_PROGRESS, g->j->reqid);
	wire_put_u32(&o, g->j->seq);
	wire_put_u64(&o, bytes);
	wire_put_u64(&o, files);
	peer_send(g->p, g->j->peer, &o);
}

static int image_load(struct priv *p, struct job *j, int fd, struct err *err)
{
	struct progress g = {.p = p, .j = j};
	struct image_limits limits = {.bytes_max = j->max_bytes};
	struct image_layer layer;
	uint8_t buf[512];
	struct wire_out o;

	if (image_store_import(p->images, fd, &limits, image_progress, &g, &layer, err) < 0)
		return -1;
	o = peer_message(buf, sizeof(buf), j->seq, PRIV_OK, j->reqid);
	wire_put_str(&o, layer.id);
	wire_put_u64(&o, layer.bytes);
	wire_put_u64(&o, layer.files);
	peer_send(p, j->peer, &o);
	return 0;
}

static int image_default(struct priv *p, struct job *j, struct err *err)
{
	auto_close int fd = -1;

	if (!p->cfg->default_image)
		return err_set(err, ERR_NOT_FOUND,
			       "no default image is set; start the daemon with --default-image");
	fd = open(p->cfg->default_image, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, ERR_UNAVAILABLE, errno, "open %s", p->cfg->default_image);
	return image_load(p, j, fd, err);
}

static int image_remove(struct priv *p, struct job *j, struct err *err)
{
	uint8_t buf[256];
	struct wire_out o = peer_message(buf, sizeof(buf), j->seq, PRIV_OK, j->reqid);

	if (image_store_remove(p->images, j->layer, err) < 0)
		return -1;
	peer_send(p, j->peer, &o);
	if (image_store_collect(p->images, err) < 0)
		log_warn("empty the layer trash: %s", err->msg);
	return 0;
}

void verb_run_image(struct priv *p, struct job *j)
{
	struct err err = {0};
	int rc;

	log_set_request(j->reqid);
	if (j->verb == PRIV_DEFAULT)
		rc = image_default(p, j, &err);
	else if (j->verb == PRIV_IMPORT)
		rc = image_load(p, j, j->fd, &err);
	else
		rc = image_remove(p, j, &err);
	if (rc < 0) {
		/* The api tries the default image again and again, and logs what is new. */
		if (j->verb != PRIV_DEFAULT)
			log_warn("image verb %u: %s", j->verb, err.msg);
		peer_reply_err(p, j, &err);
	}
	log_set_request(NULL);
}
