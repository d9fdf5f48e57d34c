/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demangle.h: C++ and Rust (v0 and legacy) names as people write them. Pure; names are hostile:
 * input length, recursion and output length are bounded.
 */
#ifndef SPANPROF_CODE_DEMANGLE_H
#define SPANPROF_CODE_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

enum { DEMANGLE_TEXT_MAX = 1024 };

/*
 * Length of name without what compilers and linkers append to it: the version ("@@GLIBC_2.2.5") and
 * the marks of a clone (".cold", ".part.0", ".isra.3", ".constprop.0", ".llvm.123" ...).
 */
size_t demangle_base_length(const char *name);

/*
 * Demangles name (version and clone marks cut off) into buf, with the parameter list or without. False
 * when it is not a mangled name; buf then holds the name without marks. The text is printable
 * and ends in "..." when it was cut. buf_bytes: 4 to DEMANGLE_TEXT_MAX.
 */
bool demangle_name(const char *name, bool parameters, char *buf, size_t buf_bytes);

#endif
