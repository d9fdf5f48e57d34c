/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strings: std::string arguments of the standard library that it is built with, short and long ones, by
 * reference, by value and as a member; functions that are overloaded, templates and in namespaces.
 *
 *   strings COUNT
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "stage.h"

namespace shop
{

struct Order {
	long number;
	std::string customer;
};

static volatile long sink;

static long nap(long n)
{
	std::this_thread::sleep_for(std::chrono::milliseconds(4));
	sink = sink + 1; /* what follows is no tail call */
	return n;
}

class Desk
{
      public:
	FRAME long take(const std::string &what, long n);
	FRAME long take(const Order &order);
	FRAME long take(long n);
};

long Desk::take(const std::string &what, long n)
{
	return nap((long)what.size() + n);
}

long Desk::take(const Order &order)
{
	return nap((long)order.customer.size() + order.number);
}

long Desk::take(long n)
{
	return nap(n);
}

FRAME long by_value(std::string what);
FRAME long by_value(std::string what)
{
	return nap((long)what.size());
}

FRAME long by_view(std::string_view what);
FRAME long by_view(std::string_view what)
{
	sink = what.front(); /* or callers pass no address */
	return nap((long)what.size());
}

template <typename T> FRAME long typed(T value)
{
	return nap((long)value);
}

} /* namespace shop */

int main(int argc, char **argv)
{
	static const std::string texts[] = {"short",
					    "a text that is longer than any short string is"};
	long count = argc > 1 ? atol(argv[1]) : 2, n_bad = 0;
	shop::Desk desk;

	wait_for_line("ready", 0);
	for (long i = 0; i < count; i++) {
		const std::string &text = texts[i % 2];
		long n = (long)text.size();

		n_bad += desk.take(text, i) != n + i;
		n_bad += desk.take(shop::Order{i, text}) != n + i;
		n_bad += desk.take(i) != i;
		n_bad += shop::by_value(text) != n;
		n_bad += shop::by_view(text) != n;
		n_bad += shop::typed<int>((int)i) != i || shop::typed<long>(i) != i;
	}
	wait_for_line("done", 0);
	return n_bad != 0;
}
