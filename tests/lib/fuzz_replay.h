/*
 * fuzz_replay.h - with -DFUZZ_REPLAY: a main that runs a fuzz target over files, for compilers
 * without libFuzzer and for debuggers.
 */
#ifndef CAISSON_TESTS_FUZZ_REPLAY_H
#define CAISSON_TESTS_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_REPLAY
int main(int argc, char **argv)
{
	static uint8_t data[1 << 20];

	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		size_t n = f ? fread(data, 1, sizeof(data), f) : 0;
		uint8_t *exact = malloc(n + 1);

		if (!f || !exact)
			return 1;
		fclose(f);
		for (size_t k = 0; k < n; k++)
			exact[k] = data[k];
		LLVMFuzzerTestOneInput(exact, n);
		free(exact);
	}
	printf("%d files replayed\n", argc - 1);
	return 0;
}
#endif

#endif
