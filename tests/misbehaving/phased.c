/* GRINDERS threads burn CPU time in `parse`; after each dip, in the next of `sort`, `render` and again `parse`. */
#define _GNU_SOURCE
#include "commands.h"

#ifndef GRINDERS
#define GRINDERS 1
#endif

static volatile unsigned long result;

__attribute__((noipa)) unsigned long parse(unsigned long rounds) {
    unsigned long x = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) x = x * 6364136223846793005UL + 1442695040888963407UL;
    return x;
}

__attribute__((noipa)) unsigned long sort(unsigned long rounds) {
    unsigned long x = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

__attribute__((noipa)) unsigned long render(unsigned long rounds) {
    unsigned long x = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) x = (x >> 3 | x << 61) * 0x9E3779B97F4A7C15UL;
    return x;
}

static void *grinder(void *nothing) {
    unsigned long (*const each[])(unsigned long) = {parse, sort, render};
    int was = 0;
    announce("parse");
    for (unsigned phase = 0;;) {
        int now = busy;
        if (now) {
            result += each[phase % 3](1000000);
        } else {
            phase += was;
            rest(10000);
        }
        was = now;
    }
    return nothing;
}

int main(void) {
    for (int i = 0; i < GRINDERS; i++) run(grinder, "grinder");
    return obey();
}
