/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c: runs a fuzz target over its corpus where libFuzzer is not linked in.
 *
 * usage: fuzz_X [-mutations=N] FILE|FOLDER...
 * Each file is run as it is, cut short, and N times with a few bytes changed (the same ones every
 * time). Input is handed over in a heap block of its exact size, so that sanitizers see overruns.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "fuzz.h"

struct replay {
	unsigned int mutations;
	unsigned int n_files;
	uint64_t random;
};

static uint64_t next_random(struct replay *r)
{
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return r->random;
}

static void run(const char *data, size_t n)
{
	AUTO_FREE char *copy = calloc(1, n + !n);

	if (!copy)
		exit(1);
	memcpy(copy, data, n);
	LLVMFuzzerTestOneInput((const uint8_t *)copy, n);
}

static void mutate(struct replay *r, char *data, size_t n)
{
	static const unsigned char edges[] = {0, 1, 0x7f, 0x80, 0xff, '\n', ' ', '0'};

	for (unsigned int k = 1 + next_random(r) % 4; k; k--) {
		uint64_t x = next_random(r);
		char *at = data + (x >> 32) % n;

		*at = x & 1 ? (char)edges[(x >> 1) % sizeof(edges)]
			    : (char)(*at ^ 1 << (x >> 1) % 8);
	}
}

static int replay_file(struct replay *r, int dir_fd, const char *name)
{
	AUTO_FREE char *data = NULL;
	size_t n;
	int error = read_file(dir_fd, name, 1 << 24, &data, &n);

	if (error) {
		fprintf(stderr, "cannot read '%s': %s\n", name, strerror(-error));
		return 1;
	}
	r->n_files++;
	run(data, n);
	for (unsigned int i = 0; n && i < r->mutations; i++) {
		AUTO_FREE char *copy = malloc(n);

		if (!copy)
			return 1;
		memcpy(copy, data, n);
		mutate(r, copy, n);
		run(copy, i % 8 ? n : next_random(r) % n);
	}
	return 0;
}

static int replay_folder(struct replay *r, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	int failed = !dir;

	while (!failed && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			failed = replay_file(r, dirfd(dir), d->d_name);
	if (dir)
		closedir(dir);
	return failed;
}

int main(int argc, char **argv)
{
	struct replay r = {.random = 0x9e3779b97f4a7c15ULL};
	int failed = 0;

	run("", 0);
	for (int i = 1; i < argc && !failed; i++) {
		struct stat st;

		if (!strncmp(argv[i], "-mutations=", 11))
			r.mutations = strtoul(argv[i] + 11, NULL, 10);
		else if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
			failed = replay_folder(&r, argv[i]);
		else
			failed = replay_file(&r, AT_FDCWD, argv[i]);
	}
	if (!failed && argc > 1 && !r.n_files) {
		fprintf(stderr, "no input was found\n");
		failed = 1;
	}
	return failed;
}
