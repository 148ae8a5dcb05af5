/*
 * interp_text.c - the runner of the interpreter as text inside the daemon; see interp_link.h.
 */
#include "core/interp_link.h"

/* A function cannot take a file into the object. The path starts where make runs, the top. */
__asm__(".pushsection .rodata\n"
	".global interp_runner\ninterp_runner:\n"
	".incbin \"share/interpreter/runner.py\"\n"
	".global interp_runner_end\ninterp_runner_end:\n"
	".byte 0\n"
	".popsection\n");

/* Its argument is the length of the runner, which comes first on standard input: a command line of
 * 20 KiB would fill every list of processes. A daemon that died in between leaves nothing. */
const char interp_boot[] = "import os,signal,sys\n"
			   "signal.alarm(30)\n"
			   "if sys.version_info<(3,8):sys.exit('Python 3.8 or newer is needed')\n"
			   "b=b'';n=int(sys.argv[1])\n"
			   "while len(b)<n:b+=os.read(0,n-len(b))or sys.exit(1)\n"
			   "signal.alarm(0)\n"
			   "exec(compile(b,'caisson-interpreter','exec'))\n";
