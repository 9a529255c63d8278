/*
 * A bcryptprimitives.dll for wine releases that lack one. Go programs get random
 * numbers from it when they start. windows.sh builds and installs it, for tests
 * only.
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
	return SystemFunction036(data, (ULONG)size);
}
