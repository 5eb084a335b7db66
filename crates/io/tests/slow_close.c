/* Loaded before the C library: DPDK's interrupt thread takes its time to close a descriptor, as it would on a busy machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

int close(int descriptor)
{
	static int (*real)(int);
	char name[17] = { 0 };
	if (real == NULL)
		real = (int (*)(int))dlsym(RTLD_NEXT, "close");
	prctl(PR_GET_NAME, name);
	if (strstr(name, "intr") != NULL)
		usleep(3000);
	return real(descriptor);
}
