/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exceptions: C++ requests that throw. Odd ones are caught inside the request, even ones cross it; a
 * profiler that rewrites return addresses aborts the process there.
 *
 *   exceptions [-o TRUTH] CALLS
 */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "stage.h"
#include "truth.h"

namespace shop
{

struct Failure : std::runtime_error {
	using std::runtime_error::runtime_error;
};

FRAME void sleep_ms(int ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

class Desk
{
      public:
	FRAME int request(const char *name, int i);

      private:
	FRAME void work(int i);
	int done = 0;
};

FRAME void Desk::work(int i)
{
	sleep_ms(40);
	if (i % 2 == 0)
		throw std::out_of_range("crosses the request");
	throw Failure("caught inside");
}

FRAME int Desk::request(const char *name, int i)
{
	uint64_t start = truth_now();

	try {
		work(i);
	} catch (const Failure &) {
		sleep_ms(20);
	}
	truth_add("call", name, start, truth_now());
	return ++done;
}

} /* namespace shop */

int main(int argc, char **argv)
{
	shop::Desk desk;
	int option, n_calls, crossed = 0;

	while ((option = getopt(argc, argv, "o:")) != -1)
		truth_open(optarg);
	n_calls = optind < argc ? atoi(argv[optind]) : 1;
	wait_for_line("ready", 0);
	for (int i = 0; i < n_calls; i++) {
		try {
			desk.request(i % 2 ? "inside" : "across", i);
		} catch (const std::out_of_range &) {
			crossed++;
		}
	}
	truth_write();
	wait_for_line("done", 0);
	return crossed != (n_calls + 1) / 2;
}
