/*
 * code_drivers.c - the programs beside this file as text inside the daemon; see toolbox.h.
 */
#include "api/daytona/toolbox.h"

/* A function cannot take a file into the object. Paths start where make runs, the top. */
#define EMBED(symbol, path)                                                                        \
	__asm__(".pushsection .rodata\n"                                                           \
		".global " #symbol "\n" #symbol ":\n"                                              \
		".incbin \"" path "\"\n"                                                           \
		".byte 0\n"                                                                        \
		".popsection\n")

EMBED(driver_python, "src/api/daytona/driver.py");
EMBED(driver_typescript, "src/api/daytona/driver.js");
