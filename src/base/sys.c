/*
 * sys.c - the one switch of sys.h; zero outside tests.
 */
#include "base/sys.h"

unsigned sys_forced_enosys;
