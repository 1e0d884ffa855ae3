/* 5,000 threads: one burns CPU time in `grind`, the others wait; and one begins others that end at once. */
#define _GNU_SOURCE
#include "commands.h"

enum { CROWD = 5000 };

static volatile unsigned long result;

static void *grinder(void *nothing) {
    announce("grind");
    for (;;) {
        if (busy) result += grind(1000000);
        else rest(10000);
    }
    return nothing;
}

static void *mayfly(void *nothing) { return nothing; }

static void *mother(void *nothing) {
    for (;;) {
        pthread_t child;
        if (!pthread_create(&child, NULL, mayfly, NULL)) pthread_join(child, NULL);
        rest(5000);
    }
    return nothing;
}

static void *waiter(void *nothing) {
    for (;;) pause();
    return nothing;
}

int main(void) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 0; i < CROWD; i++) {
        pthread_t started;
        if (pthread_create(&started, &small, waiter, NULL)) {
            perror("pthread_create");
            exit(1);
        }
    }
    run(mother, "mother");
    run(grinder, "grinder");
    return obey();
}
