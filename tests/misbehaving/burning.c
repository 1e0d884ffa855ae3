/* One thread (or GRINDERS of them) burns CPU time in `grind`, called by `serve`; another one works a little, the others
   wait. */
#define _GNU_SOURCE
#include "commands.h"

#ifndef GRINDERS
#define GRINDERS 1
#endif

static volatile unsigned long result;

__attribute__((noipa)) void serve(void) {
    result += grind(1000000);
    rounds++;
}

__attribute__((noipa)) unsigned long tidy(unsigned long rounds) {
    unsigned long x = rounds;
    for (unsigned long i = 0; i < rounds; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

static void *grinder(void *nothing) {
    announce("grind");
    for (;;) busy ? serve() : rest(10000);
    return nothing;
}

static void *tidier(void *nothing) {
    for (;;) result += tidy(100000), rest(50000);
    return nothing;
}

static void *waiter(void *nothing) {
    for (;;) pause();
    return nothing;
}

int main(void) {
    for (int i = 0; i < 8; i++) run(waiter, "waiter");
    run(tidier, "tidier");
    for (int i = 0; i < GRINDERS; i++) run(grinder, "grinder");
    return obey();
}
