/* SPDX-License-Identifier: Apache-2.0 */
#include "app/doctor.h"

#include <jansson.h>
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/vec.h"

void doctor_deinit(struct doctor *d)
{
	vec_free(d);
}

bool doctor_is_usable(const struct doctor *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->at[i].level == FINDING_FAIL)
			return false;
	return true;
}

bool doctor_is_only_process(const struct doctor *d)
{
	bool other = false;

	for (size_t i = 0; i < d->n; i++)
		other |= d->at[i].level == FINDING_FAIL && strcmp(d->at[i].group, DOCTOR_PROCESS);
	return !other && !doctor_is_usable(d);
}

void doctor_add(struct doctor *d, enum finding_level level, const char *group, const char *what,
		const char *fix, const char *format, ...)
{
	struct finding f = {.level = level, .group = group};
	va_list args;

	va_start(args, format);
	vsnprintf(f.text, sizeof(f.text), format, args);
	va_end(args);
	text_printable(f.text); /* names of files and programs are in here */
	snprintf(f.what, sizeof(f.what), "%s", what);
	text_printable(f.what);
	snprintf(f.fix, sizeof(f.fix), "%s", fix ? fix : "");
	if (vec_push(d, f) < 0)
		fprintf(stderr, "spanprof: error: no memory for a finding\n");
}

void doctor_print_json(const struct doctor *d, FILE *out)
{
	static const char *const levels[] = {"ok", "note", "warning", "failure"};
	json_t *list = json_array(), *root;

	for (size_t i = 0; i < d->n; i++) {
		const struct finding *f = &d->at[i];
		json_t *item =
			json_pack("{s:s, s:s, s:s, s:s, s:s}", "group", f->group, "check", f->what,
				  "level", levels[f->level], "text", f->text, "fix", f->fix);

		if (item)
			json_array_append_new(list, item);
	}
	root = json_pack("{s:b, s:o}", "usable", doctor_is_usable(d), "findings", list);
	json_dumpf(root, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(root);
}
