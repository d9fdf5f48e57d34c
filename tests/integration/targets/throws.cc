/* SPDX-License-Identifier: Apache-2.0 */
/*
 * throws: exceptions that cross the endpoint, COUNT times, with a destructor on the way.
 *
 *   throws COUNT
 */
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "stage.h"

namespace shop
{

long n_calls, n_destroyed;

struct Guard {
	~Guard()
	{
		n_destroyed++;
	}
};

FRAME long order(const std::string &what, long n);
FRAME long order(long n);

/* Two functions of one name: they are told apart by their parameters. */
FRAME long order(const std::string &what, long n)
{
	n_calls++;
	if (n % 2)
		throw std::runtime_error(what);
	return n + 1;
}

FRAME long order(long n)
{
	return n + 2;
}

FRAME long guarded(const std::string &what, long n)
{
	Guard guard;

	return order(what, n);
}

} /* namespace shop */

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1, n_caught = 0, n_bad = 0;
	std::string what = "an order with a name that is longer than a short string";

	wait_for_line("ready", 0);
	for (long i = 0; i < count; i++) {
		try {
			n_bad += shop::guarded(i % 3 ? what : "short", i) != i + 1;
		} catch (const std::runtime_error &) {
			n_caught++;
		}
		n_bad += shop::order(i) != i + 2;
	}
	printf("calls %ld\n", shop::n_calls);
	wait_for_line("done", 0);
	return n_bad || n_caught != count / 2 || shop::n_destroyed != count;
}
