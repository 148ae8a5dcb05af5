/*
 * raw.h - system calls without libc, for the child that shares its parent's memory.
 *
 * Between clone3(CLONE_VM) and execveat the child runs in the runner's address space and on the
 * launcher's thread-local storage: writing errno, taking a lock or calling malloc there would
 * corrupt the runner. These return -errno and touch nothing but registers.
 */
#ifndef CAISSON_BOX_RAW_H
#define CAISSON_BOX_RAW_H

#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long raw6(long nr, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory", "cc");
	return x0;
}
#else
#error "this architecture has no raw system calls yet"
#endif

/* Arguments of any integer or pointer type; a function could not take both. */
#define RAW_ARG(a)	     ((long)(a))
#define raw0(nr)	     raw6((nr), 0, 0, 0, 0, 0, 0)
#define raw1(nr, a)	     raw6((nr), RAW_ARG(a), 0, 0, 0, 0, 0)
#define raw2(nr, a, b)	     raw6((nr), RAW_ARG(a), RAW_ARG(b), 0, 0, 0, 0)
#define raw3(nr, a, b, c)    raw6((nr), RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), 0, 0, 0)
#define raw4(nr, a, b, c, d) raw6((nr), RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), RAW_ARG(d), 0, 0)
#define raw5(nr, a, b, c, d, e)                                                                    \
	raw6((nr), RAW_ARG(a), RAW_ARG(b), RAW_ARG(c), RAW_ARG(d), RAW_ARG(e), 0)

#endif
