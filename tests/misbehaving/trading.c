/* Eight threads in pairs that wake each other all the time, for 20 us of work in `grind` each; a round is one of these. */
#define _GNU_SOURCE
#include "commands.h"

enum { PAIRS = 4 };

typedef struct {
    int in, out;
} Pipes;

static volatile unsigned long result;

static void *trader(void *given) {
    Pipes *pipes = given;
    char turn;
    while (read(pipes->in, &turn, 1) == 1) {
        while (!busy) rest(10000);
        result += grind(20000);
        rounds++;
        if (write(pipes->out, &turn, 1) != 1) break;
    }
    return NULL;
}

int main(void) {
    static Pipes both[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        int there[2], back[2];
        if (pipe(there) || pipe(back)) return 1;
        both[2 * i] = (Pipes){there[0], back[1]};
        both[2 * i + 1] = (Pipes){back[0], there[1]};
        for (int side = 0; side < 2; side++) {
            pthread_t started;
            if (pthread_create(&started, NULL, trader, &both[2 * i + side])) return 1;
        }
        if (write(there[1], "", 1) != 1) return 1;
    }
    announce("grind");
    return obey();
}
