/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/reading.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "probe/expression.h"

enum { VALUE_BYTES = 160, TEMPS = 4 };

/* The machine of bpf/name.bpf.h with texts in place of numbers. */
struct reader {
	char a[VALUE_BYTES];
	char t[TEMPS][VALUE_BYTES];
	char *out;
	size_t n;
	size_t room;
};

static void cut(char *text, size_t bytes, int n)
{
	if (n >= (int)bytes && bytes > 3)
		memcpy(text + bytes - 4, "...", 4);
}

__attribute__((format(printf, 2, 3))) static void set(struct reader *r, const char *format, ...)
{
	char text[VALUE_BYTES];
	va_list args;

	va_start(args, format);
	cut(text, sizeof(text), vsnprintf(text, sizeof(text), format, args));
	va_end(args);
	memcpy(r->a, text, sizeof(text));
}

__attribute__((format(printf, 2, 3))) static void say(struct reader *r, const char *format, ...)
{
	const char *comma = r->n ? ", " : "";
	va_list args;
	int n;

	if (r->n + 1 >= r->room)
		return;
	n = snprintf(r->out + r->n, r->room - r->n, "%s", comma);
	r->n += n < (int)(r->room - r->n) ? (size_t)n : r->room - r->n - 1;
	va_start(args, format);
	n = vsnprintf(r->out + r->n, r->room - r->n, format, args);
	va_end(args);
	if (n >= (int)(r->room - r->n)) {
		cut(r->out, r->room, (int)r->room);
		r->n = r->room - 1;
	} else {
		r->n += (size_t)n;
	}
}

static void calculate(struct reader *r, const struct wire_op *op)
{
	const char *temp = r->t[op->arg % TEMPS];

	switch (op->code) {
	case WIRE_OP_REG:
		set(r, "%s", op->arg < WIRE_REG_MAX ? expression_register(op->arg) : "?");
		break;
	case WIRE_OP_IMM:
		set(r, "%" PRId64, (int64_t)op->imm);
		break;
	case WIRE_OP_ENTRY_IP:
		set(r, "a global");
		break;
	case WIRE_OP_ADD_IMM:
		if (op->imm)
			set(r, "%s%+" PRId64, r->a, (int64_t)op->imm);
		break;
	case WIRE_OP_ADD:
		set(r, "%s+%s", temp, r->a);
		break;
	case WIRE_OP_SUB:
		set(r, "%s-(%s)", temp, r->a);
		break;
	case WIRE_OP_AND_IMM:
		set(r, "(%s)&0x%" PRIx64, r->a, (uint64_t)op->imm);
		break;
	case WIRE_OP_SHR_IMM:
		set(r, "(%s)>>%" PRId64, r->a, (int64_t)op->imm);
		break;
	case WIRE_OP_MUL_IMM:
		set(r, "(%s)*%" PRId64, r->a, (int64_t)op->imm);
		break;
	}
}

static void move(struct reader *r, const struct wire_op *op)
{
	switch (op->code) {
	case WIRE_OP_DEREF:
	case WIRE_OP_DEREF_S:
		set(r, "%c%d at %s", op->code == WIRE_OP_DEREF ? 'u' : 's', 8 * op->size, r->a);
		break;
	case WIRE_OP_SAVE:
		memcpy(r->t[op->arg % TEMPS], r->a, sizeof(r->a));
		break;
	case WIRE_OP_LOAD:
		memcpy(r->a, r->t[op->arg % TEMPS], sizeof(r->a));
		break;
	case WIRE_OP_KEEP:
		say(r, "kept %d: %s", op->arg, r->a);
		break;
	case WIRE_OP_KEPT:
		set(r, "kept %d", op->arg);
		break;
	}
}

static void capture(struct reader *r, const struct wire_op *op)
{
	switch (op->code) {
	case WIRE_OP_STR:
		say(r, "text at %s", r->a);
		break;
	case WIRE_OP_STRN:
		say(r, "text at %s of as many bytes as %s", r->a, r->t[op->arg % TEMPS]);
		break;
	case WIRE_OP_INT:
	case WIRE_OP_UINT:
		say(r, "number %s", r->a);
		break;
	case WIRE_OP_IF_EQ:
		say(r, "if %s == %" PRId64, r->a, (int64_t)op->imm);
		break;
	case WIRE_OP_IF_NE:
		say(r, "if %s != %" PRId64, r->a, (int64_t)op->imm);
		break;
	case WIRE_OP_IF_LT:
		say(r, "if %s < %" PRId64, r->a, (int64_t)op->imm);
		break;
	case WIRE_OP_IF_GE:
		say(r, "if %s >= %" PRId64, r->a, (int64_t)op->imm);
		break;
	case WIRE_OP_IF_PREFIX:
		say(r, "if text at %s begins as wanted", r->a);
		break;
	}
}

const char *format_reading(const struct wire_op *ops, size_t n, char *buf, size_t bytes)
{
	struct reader r = {.out = buf, .room = bytes};

	if (bytes)
		buf[0] = '\0';
	for (size_t i = 0; i < n && ops[i].code != WIRE_OP_END; i++) {
		calculate(&r, &ops[i]);
		move(&r, &ops[i]);
		capture(&r, &ops[i]);
	}
	return buf;
}
