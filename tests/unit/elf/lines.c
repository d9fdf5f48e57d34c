/* SPDX-License-Identifier: Apache-2.0 */
/* lines.c: functions whose lines and inlined calls the tests know; #line keeps the numbers fixed. */
#define INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif

volatile int sink;
int outer(int x);
int other(int x);
int with_block(int x);

#line 100
INLINE int innermost(int x)
{
	return x / (sink + 1);
}

#line 200
INLINE int middle(int x)
{
	return innermost(x) + 3;
}

#line 300
NOINLINE int outer(int x)
{
	return middle(x) * 2;
}

#line 400
NOINLINE static int hidden(int x)
{
	sink = x;
	return sink + 1;
}

#line 500
NOINLINE int with_block(int x)
{
	for (int i = 0; i < x; i++) {
		int y = sink + i;

		if (y > 3)
			sink = middle(y);
	}
	return hidden(x);
}

__attribute__((noinline)) int aliased(int x);
__attribute__((noinline)) int aliased(int x)
{
	return sink ^ x;
}
int __aliased(int x) __attribute__((alias("aliased")));
int aliased_weak(int x) __attribute__((weak, alias("aliased")));

/* A label without type and size, with a function of no name after it. */
__asm__(".text\n"
	".p2align 4\n"
	"bare_label:\n"
	"	nop\n"
	"	nop\n"
	"	ret\n"
	".p2align 4\n");

int main(int argc, char **argv)
{
	return outer(argc) + with_block(argc) + aliased(argc);
}
