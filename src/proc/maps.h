/* SPDX-License-Identifier: Apache-2.0 */
/*
 * maps.h: the text of /proc/PID/maps, line by line. Pure: text in, entries out; fuzzed.
 *
 * The text comes from the kernel, but the path names in it were chosen by the target. The kernel
 * escapes only newlines in them (as \012) and marks unlinked files with " (deleted)"; a name that
 * looks like this by itself cannot be told apart, so whoever opens a path must check what it got.
 */
#ifndef SPANPROF_PROC_MAPS_H
#define SPANPROF_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAPS_PATH_MAX = 4096 };

enum maps_kind {
	MAPS_FILE,
	MAPS_ANONYMOUS, /* no name, "[heap]", "[stack]", "[anon:...]" */
	MAPS_VDSO,
	MAPS_UPROBES, /* page of the uretprobe trampoline and of single-stepped copies */
	MAPS_SPECIAL, /* "[vsyscall]", "[vvar]": other memory of the kernel's making */
};

struct maps_entry {
	uint64_t start;
	uint64_t end;
	uint64_t file_off;
	uint64_t ino;
	uint32_t dev_major;
	uint32_t dev_minor;
	bool readable;
	bool writable;
	bool executable;
	bool shared;
	bool deleted; /* the path ended in " (deleted)", which was cut off */
	uint8_t kind; /* enum maps_kind */
	uint16_t path_bytes;
	char path[MAPS_PATH_MAX]; /* unescaped, NUL-terminated, "" when there is none */
};

enum maps_result {
	MAPS_OK,
	MAPS_END = 1,   /* no more text */
	MAPS_E_PARTIAL, /* the text ends inside a line: nothing was consumed */
	MAPS_E_BAD,     /* not a line of maps; it was skipped */
};

/* Reads the line at text[*off] and moves *off behind it. */
enum maps_result parse_maps_line(const char *text, size_t bytes, size_t *off,
				 struct maps_entry *ret);

#endif
