/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

int main(void)
{
	return 0;
}
