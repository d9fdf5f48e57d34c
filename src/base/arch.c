/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arch.h"

#include <stddef.h>

#include "base/cleanup.h"

static const struct {
	unsigned int machine;
	const char *name;
} machines[] = {
	{EM_X86_64, ARCH_NAME},
	{EM_386, "x86 (32 bits)"},
	{EM_AARCH64, "aarch64"},
	{EM_ARM, "arm"},
	{EM_RISCV, "riscv"},
	{EM_PPC64, "ppc64"},
	{EM_S390, "s390"},
	{EM_MIPS, "mips"},
	{EM_SPARCV9, "sparc64"},
	{EM_IA_64, "ia64"},
#ifdef EM_LOONGARCH
	{EM_LOONGARCH, "loongarch"},
#endif
	{EM_BPF, "bpf"},
};

const char *arch_machine_name(unsigned int elf_machine)
{
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == elf_machine)
			return machines[i].name;
	return "unknown";
}
