/* Its first thread ends, and another one burns CPU time in `grind`. */
#define _GNU_SOURCE
#include "commands.h"

static volatile unsigned long result;

static void *grinder(void *nothing) {
    announce("grind");
    for (;;) {
        if (busy) result += grind(1000000);
        else rest(10000);
    }
    return nothing;
}

static void *obeyer(void *nothing) { exit(obey()); }

int main(void) {
    run(grinder, "grinder");
    run(obeyer, "obeyer");
    pthread_exit(NULL);
}
