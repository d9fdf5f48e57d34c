/* SPDX-License-Identifier: Apache-2.0 */
/*
 * site.h: where exactly a probe goes: the cheapest instruction that tells the same. Pure; fuzzed.
 *
 * A site is always an instruction boundary that was reached by decoding forwards from a known one (a
 * function's first byte, a return address that a real call left on the stack).
 */
#ifndef SPANPROF_PROBE_SITE_H
#define SPANPROF_PROBE_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SITE_RETURN_MAX = 192, SITE_REGISTERS = 16, SITE_LOST = 255 };

/* What this kernel emulates beyond push, jmp, jcc, call and the one-byte nop. */
struct site_rules {
	bool long_nops;
};

/* What ended the search for a cheap instruction. */
enum site_stop {
	SITE_STOP_NONE,     /* one was found */
	SITE_STOP_RETURN,   /* the function returns */
	SITE_STOP_INDIRECT, /* a jump or a call through a pointer */
	SITE_STOP_SYSCALL,
	SITE_STOP_LOOP,     /* from here on the code runs more than once a call */
	SITE_STOP_ARGUMENT, /* a value in `keep` is gone */
	SITE_STOP_STORE,    /* memory is written that a name might read */
	SITE_STOP_STACK,    /* where SP was at the first byte is not known any more */
	SITE_STOP_OTHER,
	SITE_STOP_MAX
};
/* "it returns before a cheap instruction": goes on from "has no cheap place for a probe". */
const char *site_stop_text(enum site_stop stop);

struct site {
	uint64_t vaddr; /* of the instruction to probe */
	uint32_t off;   /* bytes from the function's first byte, or from the return address */
	uint32_t
		sp_slots; /* entry: SP is this many 8-byte slots below its value at the first byte */
	bool by_rbp; /* the slots are counted from RBP instead: RBP is below SP's value there */
	bool cheap;
	uint8_t stop; /* enum site_stop */
	/*
	 * Entry: where the values that the registers had at the first byte are at the site, by enum
	 * wire_reg; SITE_LOST for those that are nowhere any more.
	 */
	uint8_t moved[SITE_REGISTERS];
};

/* Why no site can be had at all. */
enum site_result {
	SITE_OK,
	SITE_E_DECODE = 1, /* bytes are no instructions */
	SITE_E_REFUSED,    /* the kernel does not accept probes on any possible instruction */
	SITE_E_NOT_A_CALL, /* return site: no call instruction ends at the return address */
};

struct site_function {
	const uint8_t *code; /* from the function's first byte */
	size_t code_bytes;   /* all of the function, or as much as is at hand */
	uint64_t vaddr;
	size_t function_bytes; /* 0: unknown */
};

/* In `keep`: memory is read, which must be as it was at the function's first byte. */
#define SITE_KEEP_MEMORY (1U << 31)

/*
 * Entry site: inside the first basic block, as long as the values of the registers in `keep` (bits of
 * enum wire_reg) are still in some register and, with SITE_KEEP_MEMORY, before memory is written that a
 * name might read. The function's own frame is not such memory, but with WIRE_REG_RSP in `keep` SP must
 * not have moved, and nothing on the stack been written.
 */
enum site_result site_choose_entry(const struct site_function *f, uint32_t keep,
				   const struct site_rules *rules, struct site *ret);

/*
 * Argument registers (bits of enum wire_reg) that the function overwrites in its first basic block
 * before anything has read them: it has no such argument, or does not look at it.
 */
uint32_t site_unused_arguments(const struct site_function *f);

/*
 * Return site: the code around a return address. The site comes before SP goes down, before control
 * flow leaves, and before a register in `keep` (the return value) is written.
 */
struct site_return {
	const uint8_t *code;
	size_t code_bytes;
	size_t before;  /* bytes of code ahead of the return address */
	uint64_t vaddr; /* the return address */
};

enum site_result site_choose_return(const struct site_return *at, uint32_t keep,
				    const struct site_rules *rules, struct site *ret);

#endif
