/* What the C programs share: commands on the standard input, and the line that says who misbehaves. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(call)                   \
    do {                              \
        if ((call) == -1) {           \
            perror(#call);            \
            exit(1);                  \
        }                             \
    } while (0)

static atomic_int busy;
static atomic_ulong rounds;

/* Says which thread this is and what it will be busy with; of several that ask, the first one does. */
static inline void announce(const char *function) {
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&done)) return;
    printf("{\"tid\": %ld, \"function\": \"%s\"}\n", (long)syscall(SYS_gettid), function);
    fflush(stdout);
}

static inline void rest(long microseconds) { usleep(microseconds); }

/* What is hot. */
__attribute__((noipa, unused)) static unsigned long grind(unsigned long rounds) {
    unsigned long x = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) x = x * 6364136223846793005UL + 1442695040888963407UL;
    return x;
}

/* Each thread of a crowd stays on one CPU: the pressure of a host is that of its CPUs which have anything to do, and each
   of them is to have one that waits. */
static inline void spread(void) {
    static atomic_int threads;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(threads++ % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
}

/* `busy`, `idle` and `count`, one a line; ends the program at the end of the input. */
static inline int obey(void) {
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "count", 5) == 0) {
            printf("%lu\n", (unsigned long)rounds);
            fflush(stdout);
        } else {
            busy = strncmp(line, "busy", 4) == 0;
        }
    }
    return 0;
}

static inline void run(void *(*thread)(void *), const char *name) {
    pthread_t started;
    if (pthread_create(&started, NULL, thread, NULL)) {
        perror("pthread_create");
        exit(1);
    }
    pthread_setname_np(started, name);
}
