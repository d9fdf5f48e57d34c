/* SPDX-License-Identifier: Apache-2.0 */
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit durations[] = {
	{"ns", 1},
	{"us", 1000},
	{"ms", 1000000},
	{"s", 1000000000},
	{"m", 60000000000ULL},
	{"min", 60000000000ULL},
	{"h", 3600000000000ULL},
	{"d", 86400000000000ULL},
};

static const struct unit sizes[] = {
	{"", 1},        {"B", 1},         {"K", 1 << 10}, {"KiB", 1 << 10},
	{"M", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30}, {"GiB", 1 << 30},
};

int parse_u64(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *text - '0', &v))
			return -ERANGE;
	}
	if (v > max)
		return -ERANGE;
	*ret = v;
	return 0;
}

/* whole.fraction unit, without floating point so that 1.1s is exactly 1100000000 ns */
static int parse_with_units(const char *text, const struct unit *units, size_t n_units,
			    uint64_t *ret)
{
	const char *p = text;
	uint64_t whole = 0, fraction = 0, scale = 1, factor = 0;

	if (!isdigit((unsigned char)*p))
		return -EINVAL;
	for (; isdigit((unsigned char)*p); p++) {
		if (whole > UINT64_MAX / 20)
			return -ERANGE;
		whole = whole * 10 + (*p - '0');
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return -EINVAL;
		for (; isdigit((unsigned char)*p); p++) {
			if (scale >= 1000000000)
				continue;
			fraction = fraction * 10 + (*p - '0');
			scale *= 10;
		}
	}
	while (*p == ' ')
		p++;
	for (size_t i = 0; i < n_units; i++)
		if (!strcmp(p, units[i].name))
			factor = units[i].factor;
	if (!factor && !(whole == 0 && fraction == 0 && !*p))
		return -EINVAL;
	if (factor && whole > (UINT64_MAX / 2) / factor)
		return -ERANGE;
	*ret = whole * factor + (uint64_t)((unsigned __int128)fraction * factor / scale);
	return 0;
}

int parse_duration(const char *text, uint64_t *ret_ns)
{
	return parse_with_units(text, durations, ARRAY_SIZE(durations), ret_ns);
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	return parse_with_units(text, sizes, ARRAY_SIZE(sizes), ret_bytes);
}

int parse_percent(const char *text, uint32_t *ret_ppm)
{
	static const struct unit percents[] = {{"%", 10000}, {"", 10000}};
	uint64_t ppm;
	int r = parse_with_units(text, percents, ARRAY_SIZE(percents), &ppm);

	if (!r && ppm > 1000000)
		r = -ERANGE;
	if (!r)
		*ret_ppm = (uint32_t)ppm;
	return r;
}

const char *format_duration(char *buf, size_t n, uint64_t ns)
{
	if (ns < 1000)
		snprintf(buf, n, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		snprintf(buf, n, "%.1f us", ns / 1e3);
	else if (ns < 10000000000ULL)
		snprintf(buf, n, "%.1f ms", ns / 1e6);
	else
		snprintf(buf, n, "%.2f s", ns / 1e9);
	return buf;
}
