/* SPDX-License-Identifier: Apache-2.0 */
#include "app/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "app/command.h"
#include "base/file.h"
#include "base/log.h"

/* Text goes to standard output unless something else does, or nothing is to. */
static bool wants_stdout(const struct run_options *o)
{
	return !o->quiet || run_options_take_stdout(o);
}

static int check_stdout(struct errmsg *e)
{
	int flags = fcntl(STDOUT_FILENO, F_GETFL);

	/* O_PATH: main() has put a placeholder there. */
	if (flags < 0 || flags & O_PATH)
		return errmsg_set(e, -EBADF, "cannot write to standard output: it is closed");
	if ((flags & O_ACCMODE) == O_RDONLY)
		return errmsg_set(e, -EBADF,
				  "cannot write to standard output: it is open for reading only");
	return 0;
}

int outputs_open(struct outputs *ret, const struct run_options *o)
{
	struct errmsg e = {};
	int r = wants_stdout(o) ? check_stdout(&e) : 0;

	*ret = (struct outputs){};
	for (size_t i = 0; i < o->outputs.n && !r; i++) {
		struct file_out f = {};

		r = file_out_open(&f, o->outputs.at[i].path, &e);
		if (!r)
			r = vec_push(&ret->files, f);
	}
	if (!r)
		return 0;
	log_error("%s", e.text[0] ? e.text : strerror(-r));
	outputs_deinit(ret);
	return EXIT_FAILED;
}

void outputs_deinit(struct outputs *f)
{
	for (size_t i = 0; i < f->files.n; i++)
		file_out_deinit(&f->files.at[i]);
	vec_free(&f->files);
}

/* A terminal gets its width and about one screen of tree an endpoint; a pipe gets everything. */
static struct export_options text_options(const struct run_options *o)
{
	struct export_options e = {.n_slowest = 5, .verbose = o->verbose};
	struct winsize w = {};

	if (!isatty(STDOUT_FILENO))
		return e;
	e.color = !getenv("NO_COLOR");
	e.columns = 80;
	e.rows = 40;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40)
		e.columns = w.ws_col;
	if (w.ws_row > 50)
		e.rows = w.ws_row - 10;
	return e;
}

static int write_text(const struct run_options *o, const struct profile *p, struct errmsg *e)
{
	struct export_options text = text_options(o);
	int r = export_find("text")->write(p, &text, stdout, e);

	if (r)
		return r;
	r = file_flush(stdout);
	return r ? errmsg_set(e, r, "cannot write to standard output: %s", strerror(-r)) : 0;
}

static int write_file(struct file_out *f, const struct run_options *o,
		      const struct run_output *output, const struct profile *p)
{
	struct export_options plain = {.n_slowest = 5, .verbose = o->verbose};
	struct errmsg e = {};
	int r;

	errno = 0;
	r = output->format->write(p, &plain, f->stream, &e);
	if (!r)
		r = file_out_commit(f, &e);
	else if (r == -EIO &&
		 errno) /* of the first write that failed: nothing but memory is freed since */
		errmsg_set(&e, r, "cannot write '%s': %s", output->path, strerror(errno));
	if (r)
		log_error("%s", e.text[0] ? e.text : strerror(-r));
	else if (strcmp(output->path, "-"))
		log_info("wrote %s to '%s'", output->format->name, output->path);
	return r;
}

/* The run cannot be had again: each is written, whatever became of the ones before it. */
int outputs_write(struct outputs *f, const struct run_options *o, const struct profile *p)
{
	struct errmsg e = {};
	bool failed = false;

	for (size_t i = 0; i < f->files.n; i++)
		failed |= write_file(&f->files.at[i], o, &o->outputs.at[i], p) != 0;
	if (!o->quiet && !run_options_take_stdout(o)) {
		int r = write_text(o, p, &e);

		if (r)
			log_error("%s", e.text[0] ? e.text : strerror(-r));
		failed |= r != 0;
	}
	return failed ? EXIT_FAILED : 0;
}
