/*
 * probe.h - what the files of the probe share. Each probe_ function tells by say and refused what
 * it found; bad is the exit code.
 */
#ifndef CAISSON_TESTS_PROBE_H
#define CAISSON_TESTS_PROBE_H

extern int bad;

void say(int ok, const char *what, const char *detail);
/* A call that must fail with this errno (0: with any). */
void refused(const char *what, long rc, int want);

/* probe_calls.c */
void probe_namespaces(void);
void probe_calls(void);
void probe_i386(void);
void probe_sockets(void);
void probe_terminal(void);
void probe_caps(void);
void probe_pids(void);
void probe_ptrace(void);
void probe_euid(void);

#endif
