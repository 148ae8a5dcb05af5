/*
 * roles.h - the processes that one binary can be.
 *
 * Every role is entered as root with the configuration loaded and returns an exit code. Roles
 * other than the daemon give root up before they read a byte that is not ours.
 */
#ifndef CAISSON_MAIN_ROLES_H
#define CAISSON_MAIN_ROLES_H

#include <sys/types.h>

#include "caisson/doctor.h"
#include "main/config.h"

/* Descriptors a child role is started with. */
enum role_fd {
	ROLE_FD_PRIV = 3,   /* api: SEQPACKET to the runner */
	ROLE_FD_LISTEN = 4, /* api: the listening socket */
};

#define ROLE_UID_DEFAULT 61986

int role_daemon(struct config *c, int argc, char **argv);
int role_api(struct config *c);
/*
 * The api role over these descriptors (all taken), in this process, until stop is readable. Its
 * exit code. role_api is this in a process of its own.
 */
int role_api_run(struct config *c, int sock, int listener, int stop);
/*
 * --no-privsep (one_process.c): the api role on a thread of the runner's process. one_start is
 * struct priv_config's thread_api, arg a struct one_process; one_stop its stop_api.
 */
struct one_process {
	struct config *config;
	int listener;  /* borrowed */
	int stop, end; /* eventfds: told to stop; has ended */
	int sock;
	int code;
};
int one_start(void *arg, int sock, struct err *err);
void one_stop(void *arg);
int role_net(struct config *c); /* descriptors of caisson/netrole.h */
int role_check(struct config *c);
void role_doctor_config(const struct config *c, struct doctor_config *ret);

/* The listening socket for "host:port", CLOEXEC and non-blocking; listen_say logs its address. */
int listen_open(const char *text, struct err *err);
void listen_say(int fd);

/* uid and gid of the api process (config api_user, "caisson", else ROLE_UID_DEFAULT). */
int role_ids(const struct config *c, uid_t *ret_uid, gid_t *ret_gid, struct err *err);
/* Give root up for good: groups, ids, capabilities, no_new_privs. */
int role_drop(uid_t uid, gid_t gid, struct err *err);
/* --no-privsep: what this thread and its children make belongs to the api's user, as it would. */
int role_thread_files(uid_t uid, gid_t gid, struct err *err);
/* Refuse what the api process never does: new programs, mounts, namespaces, tracing. */
int role_seccomp_api(struct err *err);

#endif
