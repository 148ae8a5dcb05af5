/*
 * worker.h - the import worker: the process between the daemon and the confined unpacker.
 *
 * It reads the archive, digests it and feeds the unpacker, whose word it takes for numbers only;
 * then it makes the tree durable and names it. It never looks into the archive itself.
 *
 *   daemon <─ reports ─ worker ── archive ─► unpacker (confined)
 *                         ▲──── reports ────────┘
 */
#ifndef CAISSON_IMAGE_WORKER_H
#define CAISSON_IMAGE_WORKER_H

#include "caisson/image.h"

/* The worker's whole life, in a process of its own with one thread; reports to report_fd. */
_Noreturn void worker_main(struct image_store *s, int tar_fd, const struct image_limits *limits,
			   int report_fd);

#endif
