/* One thread (or WRITERS of them, each with a file of its own, FILE.0 and so on) waits for the disk: it writes past the
   page cache, block after block, in `append`. The larger a BLOCK, the longer a wait. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "commands.h"

#ifndef WRITERS
#define WRITERS 1
#endif

#ifndef BLOCK
#define BLOCK 65536
#endif

#ifndef BLOCKS
#define BLOCKS 256
#endif

static const char *path;
static void *block;

__attribute__((noipa)) void append(int file, int number) {
    if (pwrite(file, block, BLOCK, (off_t)(number % BLOCKS) * BLOCK) != BLOCK || fdatasync(file)) {
        perror("writing");
        exit(1);
    }
}

static void *writer(void *nothing) {
    static atomic_int writers;
    char name[4096];
    snprintf(name, sizeof name, WRITERS > 1 ? "%s.%d" : "%s", path, (int)writers++);
    int file = open(name, O_CREAT | O_WRONLY | O_DIRECT, 0600);
    if (file < 0) {
        perror(name);
        exit(1);
    }
    if (WRITERS > 1) spread();
    announce("append");
    for (int number = 0;;) {
        if (busy) append(file, number++), rounds++;
        else rest(10000);
    }
    return nothing;
}

int main(int count, char **arguments) {
    if (count != 2 || posix_memalign(&block, 4096, BLOCK)) {
        fprintf(stderr, "usage: writing FILE (of a file system that knows O_DIRECT)\n");
        return 1;
    }
    path = arguments[1];
    memset(block, 1, BLOCK);
    for (int i = 0; i < WRITERS; i++) run(writer, "writer");
    return obey();
}
