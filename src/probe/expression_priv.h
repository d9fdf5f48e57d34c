/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expression_priv.h: the parser of expressions, and of values in them: for src/probe/expression*.c only.
 */
#ifndef SPANPROF_PROBE_EXPRESSION_PRIV_H
#define SPANPROF_PROBE_EXPRESSION_PRIV_H

#include "probe/expression.h"

struct parser {
	struct scan *s;
	struct expression *x;
	unsigned int depth;
};

/* What is wrong with the token at hand; the scanner has said so already when it is none. */
int expression_fail_here(const struct parser *p, const char *what);
/* A copy of the token at hand, or of the string's value when it is one; NULL without memory. */
char *expression_token_text(const struct scan *s);
/* node.text is consumed. */
int expression_add_node(struct parser *p, struct expr_node node, uint16_t *ret);
int expression_parse_value(struct parser *p, uint16_t *ret);
/* "(" value ")" */
int expression_parse_operand(struct parser *p, uint16_t *ret);

#endif
