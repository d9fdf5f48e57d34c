/* SPDX-License-Identifier: Apache-2.0 */
/* names.cc: C++ names and inlined member functions. */
namespace shop
{
volatile int sink;

struct Order {
	int total;
	inline __attribute__((always_inline)) int price(int n) const
	{
		return total / (sink + n);
	}
	__attribute__((noinline)) int bill(int n);
	__attribute__((noinline)) int bill(const char *text);
};

int Order::bill(int n)
{
	return price(n) + 1;
}

int Order::bill(const char *text)
{
	return text[0] + sink;
}

template <typename T> __attribute__((noinline)) T add(T a, T b)
{
	sink = 1;
	return a + b + sink;
}
} /* namespace shop */

int main(int argc, char **argv)
{
	shop::Order o{argc};
	auto twice = [&](int n) __attribute__((noinline))
	{
		shop::sink = n;
		return n * 2 + argc;
	};

	return o.bill(argc) + o.bill(argv[0]) + shop::add(1, argc) + twice(argc);
}
