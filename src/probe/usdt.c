/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/usdt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { NOTE_TYPE = 3, NOTE_HEADER = 12, DESC_NUMBERS = 24 };

static uint64_t read_u64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t read_u32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The next NUL-terminated string in the description; NULL when there is none. */
static const char *take_string(const uint8_t *desc, size_t bytes, size_t *at)
{
	const char *s = (const char *)desc + *at;
	size_t n = strnlen(s, bytes - *at);

	if (n == bytes - *at)
		return NULL;
	*at += n + 1;
	return s;
}

static bool parse_description(const uint8_t *desc, size_t bytes, struct usdt_note *ret)
{
	size_t at = DESC_NUMBERS;

	if (bytes < DESC_NUMBERS + 3)
		return false;
	ret->vaddr = read_u64(desc);
	ret->base = read_u64(desc + 8);
	ret->semaphore = read_u64(desc + 16);
	ret->provider = take_string(desc, bytes, &at);
	ret->name = ret->provider ? take_string(desc, bytes, &at) : NULL;
	ret->arguments = ret->name ? take_string(desc, bytes, &at) : NULL;
	return ret->arguments != NULL;
}

bool parse_usdt_note(const uint8_t *data, size_t bytes, size_t *off, struct usdt_note *ret)
{
	while (*off <= bytes && bytes - *off >= NOTE_HEADER) {
		const uint8_t *h = data + *off;
		uint64_t name_bytes = ((uint64_t)read_u32(h) + 3) & ~3ULL;
		uint64_t desc_bytes = ((uint64_t)read_u32(h + 4) + 3) & ~3ULL;
		size_t left = bytes - *off - NOTE_HEADER;
		bool ours = read_u32(h + 8) == NOTE_TYPE && read_u32(h) == 8;

		if (name_bytes > left || desc_bytes > left - name_bytes)
			return false;
		*off += NOTE_HEADER + name_bytes + desc_bytes;
		if (ours && memcmp(h + NOTE_HEADER, "stapsdt", 8) == 0)
			return parse_description(h + NOTE_HEADER + name_bytes, read_u32(h + 4),
						 ret);
	}
	return false;
}

/* Words at the end of a name, after "__" or "_". */
static const struct {
	const char *begin;
	const char *ends[4];
} partners[] = {
	{"start", {"done", "end", "stop", "finish"}},
	{"entry", {"return", "exit"}},
	{"begin", {"end", "done"}},
	{"startup", {"shutdown"}},
};

bool usdt_partner(const char *begin, unsigned int k, char *buf, size_t n)
{
	const char *word = strrchr(begin, '_');
	int stem = word ? (int)(word + 1 - begin) : 0;

	for (size_t i = 0; word && k < 4 && i < ARRAY_SIZE(partners); i++)
		if (strcmp(partners[i].begin, word + 1) == 0 && partners[i].ends[k])
			return (size_t)snprintf(buf, n, "%.*s%s", stem, begin,
						partners[i].ends[k]) < n;
	return false;
}

static const char *const register_words[WIRE_REG_RIP][4] = {
	[WIRE_REG_RAX] = {"al", "ax", "eax", "rax"},
	[WIRE_REG_RDX] = {"dl", "dx", "edx", "rdx"},
	[WIRE_REG_RCX] = {"cl", "cx", "ecx", "rcx"},
	[WIRE_REG_RBX] = {"bl", "bx", "ebx", "rbx"},
	[WIRE_REG_RSI] = {"sil", "si", "esi", "rsi"},
	[WIRE_REG_RDI] = {"dil", "di", "edi", "rdi"},
	[WIRE_REG_RBP] = {"bpl", "bp", "ebp", "rbp"},
	[WIRE_REG_RSP] = {"spl", "sp", "esp", "rsp"},
	[WIRE_REG_R8] = {"r8b", "r8w", "r8d", "r8"},
	[WIRE_REG_R9] = {"r9b", "r9w", "r9d", "r9"},
	[WIRE_REG_R10] = {"r10b", "r10w", "r10d", "r10"},
	[WIRE_REG_R11] = {"r11b", "r11w", "r11d", "r11"},
	[WIRE_REG_R12] = {"r12b", "r12w", "r12d", "r12"},
	[WIRE_REG_R13] = {"r13b", "r13w", "r13d", "r13"},
	[WIRE_REG_R14] = {"r14b", "r14w", "r14d", "r14"},
	[WIRE_REG_R15] = {"r15b", "r15w", "r15d", "r15"},
};

/* "%name" at *p; *p moves behind it. The width in bytes is returned through ret_size. */
static bool take_register(const char **p, enum wire_reg *ret, uint8_t *ret_size)
{
	size_t n;

	if (**p != '%')
		return false;
	n = strcspn(*p + 1, " ),");
	for (unsigned int i = 0; i < WIRE_REG_RIP; i++) {
		for (unsigned int k = 0; k < 4; k++) {
			const char *word = register_words[i][k];

			if (strlen(word) != n || memcmp(word, *p + 1, n) != 0)
				continue;
			*ret = (enum wire_reg)i;
			*ret_size = (uint8_t)(1U << k);
			*p += 1 + n;
			return true;
		}
	}
	return false;
}

static bool at_end(const char *p)
{
	return *p == '\0' || *p == ' ';
}

/* "$5", "%edi", "-8(%rbp)", "(%rax)" */
static int parse_operand(const char *p, struct place *ret)
{
	uint8_t width;
	char *end;

	if (*p == '$') {
		ret->kind = PLACE_CONSTANT;
		errno = 0;
		ret->offset = strtoll(p + 1, &end, 0);
		return end > p + 1 && errno == 0 && at_end(end) ? 0 : -ENOTSUP;
	}
	if (take_register(&p, &ret->reg, &width)) {
		ret->kind = PLACE_REGISTER;
		if (width < ret->size)
			ret->size = width;
		return at_end(p) ? 0 : -ENOTSUP;
	}
	ret->kind = PLACE_MEMORY;
	if (*p != '(') {
		errno = 0;
		ret->offset = strtoll(p, &end, 0);
		if (end == p || errno != 0)
			return -ENOTSUP;
		p = end;
	}
	if (*p++ != '(' || !take_register(&p, &ret->reg, &width) || width != 8)
		return -ENOTSUP;
	return *p == ')' && at_end(p + 1) ? 0 : -ENOTSUP;
}

static const char *skip_argument(const char *p)
{
	while (*p && *p != ' ')
		p++;
	while (*p == ' ')
		p++;
	return p;
}

unsigned int usdt_n_arguments(const char *arguments)
{
	unsigned int n = 0;
	const char *p = arguments;

	while (*p == ' ')
		p++;
	for (; *p && n < USDT_ARGUMENTS_MAX; n++)
		p = skip_argument(p);
	return n;
}

int parse_usdt_argument(const char *arguments, unsigned int number, struct place *ret)
{
	struct place place = {.size = 8};
	const char *p = arguments;
	char *end;
	long size;

	while (*p == ' ')
		p++;
	for (unsigned int i = 0; i < number && *p; i++)
		p = skip_argument(p);
	if (!*p)
		return -ENOENT;
	size = strtol(p, &end, 10);
	if (end != p && *end == '@') {
		place.is_signed = size < 0;
		size = labs(size);
		if (size != 1 && size != 2 && size != 4 && size != 8)
			return -ENOTSUP;
		place.size = (uint8_t)size;
		p = end + 1;
	}
	place.type.class = place.is_signed ? VALUE_SIGNED : VALUE_UNSIGNED;
	place.type.size = place.size;
	if (parse_operand(p, &place) < 0)
		return -ENOTSUP;
	*ret = place;
	return 0;
}
