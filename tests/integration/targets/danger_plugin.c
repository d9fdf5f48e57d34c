/* SPDX-License-Identifier: Apache-2.0 */
/* danger_plugin.c: calls back into the program, from a library that is loaded late. */

long call_back(long (*fn)(long, int), long n, int how);

long call_back(long (*fn)(long, int), long n, int how)
{
	return fn(n, how) + 1;
}
