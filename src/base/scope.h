/*
 * scope.h - resources that end with their scope.
 *
 * auto_* marks an owner from the line the resource is born; TAKE_PTR and TAKE_FD hand it over
 * visibly. Destructors accept NULL and -1.
 */
#ifndef CAISSON_BASE_SCOPE_H
#define CAISSON_BASE_SCOPE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define auto_call(fn) __attribute__((cleanup(fn)))

static inline void scope_free(void *p)
{
	free(*(void **)p);
}

static inline void scope_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void scope_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void scope_closedir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define auto_free     auto_call(scope_free)
#define auto_close    auto_call(scope_close)
#define auto_fclose   auto_call(scope_fclose)
#define auto_closedir auto_call(scope_closedir)

/* A function would lose the type of the pointer, so these are macros. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int taken_ = (fd);                                                                 \
		(fd) = -1;                                                                         \
		taken_;                                                                            \
	})

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)    ((a) < (b) ? (a) : (b))
#define MAX(a, b)    ((a) > (b) ? (a) : (b))

#define container_of(ptr, type, member) ((type *)((char *)(ptr) - __builtin_offsetof(type, member)))

#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define MUST_USE	       __attribute__((warn_unused_result))

#endif
