/* One thread (or SWEEPERS of them) reads pages of a file that it has mapped, in no order, in `sweep`: more of them than
   its cgroup's memory holds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "commands.h"

#ifndef SWEEPERS
#define SWEEPERS 1
#endif

static const volatile char *pages;
static size_t size;
static volatile unsigned long result;

__attribute__((noipa)) void sweep(unsigned long *at) {
    for (size_t left = size / 4096; left && busy; left--, rounds++) {
        *at = *at * 6364136223846793005UL + 1442695040888963407UL;
        result += pages[(*at >> 33) % (size / 4096) * 4096];
    }
}

static void *sweeper(void *nothing) {
    if (SWEEPERS > 1) spread();
    announce("sweep");
    for (unsigned long at = (unsigned long)pthread_self();;) busy ? sweep(&at) : rest(10000);
    return nothing;
}

int main(int count, char **arguments) {
    int file = count > 1 ? open(arguments[1], O_RDONLY) : -1;
    size = file < 0 ? 0 : (size_t)lseek(file, 0, SEEK_END);
    pages = size ? mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
    if (pages == MAP_FAILED) {
        perror("usage: thrashing FILE");
        return 1;
    }
    for (int i = 0; i < SWEEPERS; i++) run(sweeper, "sweeper");
    return obey();
}
