/* One thread (or WRITERS of them) waits for the disk: it writes a file past the page cache, block after block, in
   `append`. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "commands.h"

#ifndef WRITERS
#define WRITERS 1
#endif

enum { BLOCK = 1 << 16, BLOCKS = 256 };

static int file;
static void *block;

__attribute__((noipa)) void append(int number) {
    if (pwrite(file, block, BLOCK, (off_t)(number % BLOCKS) * BLOCK) != BLOCK || fdatasync(file)) {
        perror("writing");
        exit(1);
    }
}

static void *writer(void *nothing) {
    announce("append");
    for (;;) busy ? append(rounds++) : rest(10000);
    return nothing;
}

int main(int count, char **arguments) {
    file = count > 1 ? open(arguments[1], O_CREAT | O_WRONLY | O_DIRECT, 0600) : -1;
    if (file < 0 || posix_memalign(&block, 4096, BLOCK)) {
        perror("usage: writing FILE (of a file system that knows O_DIRECT)");
        return 1;
    }
    memset(block, 1, BLOCK);
    for (int i = 0; i < WRITERS; i++) run(writer, "writer");
    return obey();
}
