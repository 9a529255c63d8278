/*
 * bcryptprimitives.dll for wine releases that lack it: Go programs take their
 * random numbers from it as they start. Built and installed by windows.sh, for
 * tests only.
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
	return SystemFunction036(data, (ULONG)size);
}
