/* SPDX-License-Identifier: Apache-2.0 */
/* versions.c: two versions of one function. */
int pick_old(int x);
int pick_new(int x);

__attribute__((noinline)) int pick_old(int x)
{
	return x * 3;
}

__attribute__((noinline)) int pick_new(int x)
{
	return x * 5;
}

__asm__(".symver pick_old, pick@V1");
__asm__(".symver pick_new, pick@@V2");
