/*
 * net_pool.c - makers keep leases ready; released ones are forgotten behind the callers' backs.
 *
 * A maker is a thread that lives in the router namespace. Claims only pop; when the pool is empty
 * they wait for the makers, who then make more than the pool's size, so a burst is bounded by the
 * speed of making and no caller's thread ever changes its namespace.
 */
#include "box/net_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define MAKE_BACKOFF_MS 100

struct net_node *net_pool_find(struct net *n, uint32_t slot)
{
	struct net_node *p = n->live[slot % NET_BUCKETS];

	while (p && p->slot != slot)
		p = p->next;
	return p;
}

void net_pool_insert(struct net *n, struct net_node *node)
{
	struct net_node **bucket = &n->live[node->slot % NET_BUCKETS];

	node->next = *bucket;
	*bucket = node;
	n->nlive++;
}

static struct net_node *pool_take(struct net *n, uint32_t slot)
{
	struct net_node **pp = &n->live[slot % NET_BUCKETS], *p;

	while (*pp && (*pp)->slot != slot)
		pp = &(*pp)->next;
	p = *pp;
	if (p) {
		*pp = p->next;
		n->nlive--;
	}
	return p;
}

void net_lease_fill(const struct net *n, const struct net_node *node, struct net_lease *ret)
{
	struct net_ids ids;

	net_ids(n, node->slot, &ids);
	memset(ret, 0, sizeof(*ret));
	ret->netns = node->netns;
	ret->slot = node->slot;
	inet_ntop(AF_INET, &ids.ip4, ret->ip4, sizeof(ret->ip4));
	if (n->v6)
		inet_ntop(AF_INET6, &ids.ip6, ret->ip6, sizeof(ret->ip6));
	snprintf(ret->resolver4, sizeof(ret->resolver4), "%s", NET_RESOLVER4);
}

/* The sockets of a maker's thread. */
struct maker {
	struct net *n;
	unsigned number;
	unsigned nsettling;
	struct nl_sock rt, nft;
	int procnet; /* files of the namespace this thread is in */
	struct net_fresh fresh;
};

/* A maker that can't come back would keep a released namespace alive. */
static void maker_return(const struct maker *m)
{
	while (setns(m->n->router, CLONE_NEWNET) < 0)
		poll(NULL, 0, MAKE_BACKOFF_MS);
}

/* What a namespace that nobody had yet shows; once. */
static void maker_learn(struct maker *m, int netns)
{
	if (m->fresh.whole || m->procnet < 0 || setns(netns, CLONE_NEWNET) < 0)
		return;
	if (net_fresh_read(m->n, m->procnet, &m->fresh) < 0)
		net_fresh_done(&m->fresh);
	maker_return(m);
}

static enum net_use lease_use(struct maker *m, const struct net_node *node)
{
	enum net_use use;

	if (!m->fresh.whole || setns(node->netns, CLONE_NEWNET) < 0)
		return NET_USED;
	use = net_use_of(m->n, &m->fresh, m->procnet);
	maker_return(m);
	return use;
}

static struct net_node *lease_make(struct maker *m, struct err *err)
{
	auto_free struct net_node *node = calloc(1, sizeof(*node));
	struct net *n = m->n;
	struct net_ids ids;
	uint32_t slot;

	if (!node)
		return (void)err_set(err, ERR_NOMEM, "out of memory"), NULL;
	node->in.fd = -1;
	if (net_slot_take(n, &slot, err) < 0)
		return NULL;
	pthread_mutex_lock(&n->lock);
	n->making[m->number] = slot;
	pthread_mutex_unlock(&n->lock);
	net_ids(n, slot, &ids);
	if (net_link_make(n, &m->rt, &ids, &node->netns, &node->in, err) < 0)
		return NULL;
	if (net_elem_known(n, &m->nft, &ids, err) < 0) {
		nl_close(&node->in);
		close(node->netns);
		return NULL;
	}
	node->dead_ms = clock_mono_ms() + NET_SETTLE_MS;
	node->slot = slot;
	maker_learn(m, node->netns);
	return TAKE_PTR(node);
}

/* Called and left with lock held. */
static void maker_make(struct maker *m)
{
	struct net *n = m->n;
	struct err err = {0};
	struct net_node *node;

	n->nmaking++;
	pthread_mutex_unlock(&n->lock);
	node = lease_make(m, &err);
	pthread_mutex_lock(&n->lock);
	n->making[m->number] = 0;
	if (!node) {
		n->nmaking--;
		n->make_err = err;
		n->make_failed_ms = clock_mono_ms();
		return;
	}
	n->make_failed_ms = 0;
	node->next = n->settling[m->number];
	n->settling[m->number] = node;
	m->nsettling++;
}

/* Those that send become ready. Called and left with lock held, which is given up between. */
static void maker_settle(struct maker *m)
{
	struct net *n = m->n;
	struct net_node **pp = &n->settling[m->number];

	while (*pp) {
		struct net_node *node = *pp;
		bool sends;

		/* Only this maker changes its list; the lock is for those who read it. */
		pthread_mutex_unlock(&n->lock);
		sends = net_link_sends(&node->in, NET_BOX_INDEX) || clock_mono_ms() > node->dead_ms;
		pthread_mutex_lock(&n->lock);
		if (!sends) {
			pp = &node->next;
			continue;
		}
		*pp = node->next;
		nl_close(&node->in);
		node->next = n->ready;
		n->ready = node;
		n->nready++;
		n->nmaking--;
		m->nsettling--;
		pthread_cond_signal(&n->have);
	}
}

/* Called and left with lock held: a released lease that is nobody's nor ready. */
static void lease_die(struct net *n, struct net_node *node)
{
	int netns = TAKE_FD(node->netns);

	node->dead_ms = clock_mono_ms();
	node->next = n->dead;
	n->dead = node;
	pthread_mutex_unlock(&n->lock);
	if (netns >= 0)
		close(netns);
	pthread_mutex_lock(&n->lock);
}

/* One returned lease becomes ready again or dies. Called and left with lock held. */
static void maker_look(struct maker *m)
{
	struct net *n = m->n;
	struct net_node *node = n->returned;
	enum net_use use;

	n->returned = node->next;
	pthread_mutex_unlock(&n->lock);
	use = lease_use(m, node);
	pthread_mutex_lock(&n->lock);
	if (use == NET_SOCKETS && clock_mono_ms() - node->dead_ms < NET_UNSURE_MS) {
		node->next = n->unsure;
		n->unsure = node;
		return;
	}
	n->nreturned--;
	if (use != NET_UNUSED) {
		lease_die(n, node);
		return;
	}
	node->next = n->ready;
	n->ready = node;
	n->nready++;
	pthread_cond_signal(&n->have);
}

/*
 * Most leases come back unused, so a few missing ones are waited for; but only while claims come,
 * and never a quarter of the pool.
 */
static bool maker_wanted(const struct net *n)
{
	unsigned have = n->nready + n->nmaking + n->nreturned;

	if (n->make_failed_ms && clock_mono_ms() - n->make_failed_ms < MAKE_BACKOFF_MS)
		return false;
	if (n->nwaiting || have < n->pool - n->pool / 4)
		return have < n->pool + n->nwaiting;
	return have < n->pool && clock_mono_ms() - n->claimed_ms >= NET_REST_MS;
}

static void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t ms)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_sec += ms / 1000;
	ts.tv_nsec += ms % 1000 * 1000000;
	if (ts.tv_nsec >= 1000000000) {
		ts.tv_nsec -= 1000000000;
		ts.tv_sec++;
	}
	pthread_cond_timedwait(c, m, &ts);
}

static int64_t maker_patience(const struct net *n, bool first)
{
	if (n->make_failed_ms)
		return MAKE_BACKOFF_MS;
	if (n->unsure)
		return NET_UNSURE_LOOK;
	if (n->nready + n->nmaking + n->nreturned < n->pool ||
	    (first && clock_mono_ms() - n->claimed_ms < NET_RECENT_MS))
		return NET_REST_MS;
	return first ? NET_TICK_MS : NET_IDLE_MS;
}

/* What maker 0 does besides. Called and left with lock held. */
static void maker_chores(struct maker *m, int64_t *looked_ms)
{
	struct net *n = m->n;

	pthread_mutex_unlock(&n->lock);
	net_bury(n, &m->rt, &m->nft);
	if (clock_mono_ms() - *looked_ms >= NET_LOOK_MS) {
		*looked_ms = clock_mono_ms();
		net_uplink_look(n, &m->nft);
	}
	pthread_mutex_lock(&n->lock);
}

static void maker_nap(struct net *n)
{
	const struct timespec nap = {.tv_nsec = NET_SETTLE_US * 1000L};

	pthread_mutex_unlock(&n->lock);
	nanosleep(&nap, NULL);
	pthread_mutex_lock(&n->lock);
}

/* Called and left with lock held, which is given up meanwhile. */
static void maker_rest(struct maker *m)
{
	struct net *n = m->n;

	if (m->nsettling) {
		maker_nap(n);
		return;
	}
	cond_wait_ms(&n->want, &n->lock, maker_patience(n, m->number == 0));
	if (!n->returned)
		n->returned = TAKE_PTR(n->unsure);
}

static void maker_loop(struct maker *m)
{
	struct net *n = m->n;
	bool first = m->number == 0;
	int64_t ticked = clock_mono_ms(), looked = ticked;

	pthread_mutex_lock(&n->lock);
	while (!n->stop) {
		if (n->returned)
			maker_look(m);
		else if (maker_wanted(n) && m->nsettling < NET_SETTLING)
			maker_make(m);
		else
			maker_rest(m);
		maker_settle(m);
		if (first && clock_mono_ms() - ticked >= NET_TICK_MS) {
			ticked = clock_mono_ms();
			maker_chores(m, &looked);
		}
	}
	pthread_mutex_unlock(&n->lock);
}

static void *maker_main(void *arg)
{
	const struct sched_param batch = {0};
	struct maker *m = arg;
	struct net *n = m->n;
	struct err err = {0};

	/* Same share, but waking up a maker doesn't push a start aside. */
	pthread_setschedparam(pthread_self(), SCHED_BATCH, &batch);
	m->procnet = open("/proc/thread-self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (setns(n->router, CLONE_NEWNET) < 0)
		err_errno(&err, ERR_INTERNAL, errno, "enter the router");
	else if (nl_open(&m->rt, NETLINK_ROUTE, &err) == 0 &&
		 nl_open(&m->nft, NETLINK_NETFILTER, &err) == 0)
		maker_loop(m);
	if (err.code) {
		pthread_mutex_lock(&n->lock);
		n->make_err = err;
		pthread_mutex_unlock(&n->lock);
	}
	nl_close(&m->rt);
	nl_close(&m->nft);
	scope_close(&m->procnet);
	net_fresh_done(&m->fresh);
	free(m);
	return NULL;
}

int net_pool_start(struct net *n, struct err *err)
{
	for (unsigned i = 0; i < NET_MAKERS; i++) {
		struct maker *m = malloc(sizeof(*m));
		int e;

		if (!m)
			return err_set(err, ERR_NOMEM, "out of memory");
		*m = (struct maker){.n = n, .number = i, .rt.fd = -1, .nft.fd = -1, .procnet = -1};
		e = pthread_create(&n->maker[i], NULL, maker_main, m);
		if (e) {
			free(m);
			return err_errno(err, ERR_NOMEM, e, "start a network maker");
		}
		n->nmakers++;
	}
	return 0;
}

static void list_free(struct net_node *p)
{
	while (p) {
		struct net_node *next = p->next;

		if (p->netns >= 0)
			close(p->netns);
		nl_close(&p->in);
		free(p);
		p = next;
	}
}

void net_pool_stop(struct net *n)
{
	pthread_mutex_lock(&n->lock);
	n->stop = true;
	pthread_cond_broadcast(&n->want);
	pthread_cond_broadcast(&n->have);
	pthread_mutex_unlock(&n->lock);
	for (; n->nmakers; n->nmakers--)
		pthread_join(n->maker[n->nmakers - 1], NULL);
	pthread_mutex_lock(&n->nft_lock);
	net_elem_forget(n, &n->nft, n->ready, NULL);
	net_elem_forget(n, &n->nft, n->returned, NULL);
	net_elem_forget(n, &n->nft, n->unsure, NULL);
	net_elem_forget(n, &n->nft, n->dead, NULL);
	for (size_t i = 0; i < NET_MAKERS; i++)
		net_elem_forget(n, &n->nft, n->settling[i], NULL);
	pthread_mutex_unlock(&n->nft_lock);
	for (size_t i = 0; i < NET_MAKERS; i++)
		list_free(TAKE_PTR(n->settling[i]));
	list_free(TAKE_PTR(n->ready));
	list_free(TAKE_PTR(n->returned));
	list_free(TAKE_PTR(n->unsure));
	list_free(TAKE_PTR(n->dead));
	for (size_t i = 0; i < NET_BUCKETS; i++)
		list_free(TAKE_PTR(n->live[i]));
	n->nready = n->nlive = n->nreturned = 0;
}

/* Called with lock held. */
static struct net_node *pool_pop(struct net *n, struct err *err)
{
	int64_t deadline = clock_mono_ms() + NET_CLAIM_WAIT_MS;
	struct net_node *node;

	while (!n->ready && !n->stop && clock_left_ms(deadline) > 0) {
		n->nwaiting++;
		pthread_cond_broadcast(&n->want);
		cond_wait_ms(&n->have, &n->lock, clock_left_ms(deadline));
		n->nwaiting--;
	}
	node = n->ready;
	if (n->stop || !node) {
		if (n->make_err.code)
			*err = n->make_err;
		else
			err_set(err, ERR_UNAVAILABLE, "no network within %d ms", NET_CLAIM_WAIT_MS);
		return NULL;
	}
	n->ready = node->next;
	n->nready--;
	n->claimed_ms = clock_mono_ms();
	return node;
}

int net_claim(struct net *n, uint32_t flags, struct net_lease *ret, struct err *err)
{
	struct err none = {0};
	struct net_node *node;
	bool wanted;
	int r = 0;

	pthread_mutex_lock(&n->lock);
	node = pool_pop(n, err ? err : &none);
	if (node)
		net_pool_insert(n, node);
	wanted = maker_wanted(n);
	pthread_mutex_unlock(&n->lock);
	if (!node)
		return -1;
	if (!(flags & NET_BLOCK)) {
		pthread_mutex_lock(&n->nft_lock);
		r = net_elem_open(&n->nft, node->slot, true, err);
		node->open = r == 0;
		pthread_mutex_unlock(&n->nft_lock);
	}
	/* Last, or the maker it wakes would take the processor first. */
	if (wanted)
		pthread_cond_signal(&n->want);
	net_lease_fill(n, node, ret);
	if (r < 0)
		net_release(n, ret);
	return r;
}

void net_release(struct net *n, struct net_lease *lease)
{
	struct net_node *node;

	if (!n || lease->slot == 0)
		return;
	pthread_mutex_lock(&n->lock);
	node = pool_take(n, lease->slot);
	pthread_mutex_unlock(&n->lock);
	lease->slot = 0;
	lease->netns = -1;
	if (!node)
		return;
	pthread_mutex_lock(&n->nft_lock);
	if (node->open)
		net_elem_open(&n->nft, node->slot, false, NULL);
	node->open = false;
	pthread_mutex_unlock(&n->nft_lock);
	pthread_mutex_lock(&n->lock);
	/* A few over, or each that comes back after its place was filled would be one too many. */
	if (node->netns >= 0 && n->nready + n->nmaking + n->nreturned < n->pool + n->pool / 4) {
		node->dead_ms = clock_mono_ms();
		node->next = n->returned;
		n->returned = node;
		n->nreturned++;
		pthread_cond_signal(&n->want);
	} else {
		lease_die(n, node);
	}
	pthread_mutex_unlock(&n->lock);
}

int net_set_flags(struct net *n, const struct net_lease *lease, uint32_t flags, struct err *err)
{
	bool open = !(flags & NET_BLOCK);
	struct net_node *node;
	int r = 0;

	pthread_mutex_lock(&n->nft_lock);
	pthread_mutex_lock(&n->lock);
	node = net_pool_find(n, lease->slot);
	pthread_mutex_unlock(&n->lock);
	/* A release takes nft_lock before the node goes, so node stays while it is held. */
	if (!node)
		r = err_set(err, ERR_NOT_FOUND, "no network lease %u", lease->slot);
	else if (node->open != open)
		r = net_elem_open(&n->nft, node->slot, open, err);
	if (r == 0)
		node->open = open;
	pthread_mutex_unlock(&n->nft_lock);
	return r;
}
