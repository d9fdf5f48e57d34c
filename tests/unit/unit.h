/* SPDX-License-Identifier: Apache-2.0 */
/* unit.h: cmocka, with the headers that it wants to come before it. */
#ifndef SPANPROF_TESTS_UNIT_H
#define SPANPROF_TESTS_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
