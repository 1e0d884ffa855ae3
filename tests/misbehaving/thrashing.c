/* One thread reads a file that it has mapped, from end to end, in `sweep`: more than its cgroup's memory holds. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>

#include "commands.h"

static const volatile char *pages;
static size_t size;
static volatile unsigned long result;

__attribute__((noipa)) void sweep(void) {
    for (size_t at = 0; at < size && busy; at += 4096) result += pages[at], rounds++;
}

static void *sweeper(void *nothing) {
    announce("sweep");
    for (;;) busy ? sweep() : rest(10000);
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
    madvise((void *)pages, size, MADV_RANDOM); /* each page is read by itself */
    run(sweeper, "sweeper");
    return obey();
}
