/* Its first thread ends, and another one burns CPU time in `grind`. */
#define _GNU_SOURCE
#include "commands.h"

static volatile unsigned long result;

__attribute__((noipa)) unsigned long grind(unsigned long rounds) {
    unsigned long x = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) x = x * 6364136223846793005UL + 1442695040888963407UL;
    return x;
}

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
