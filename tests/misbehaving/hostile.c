/* A neighbour who wants to harm who watches it: each way is an argument. Runs until it is killed. */
#define _GNU_SOURCE
#include "commands.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYMBOL
#define SYMBOL "burn"
#endif

static volatile unsigned long result;

void burn(void) __asm__(SYMBOL);
__attribute__((noipa)) void burn(void) {
    for (unsigned long i = 0; i < 200000000; i++) result = result * 6364136223846793005UL + i;
}

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

static void burn_on(void) {
    ready();
    for (;;) burn();
}

static void wait_on(void) {
    ready();
    for (;;) pause();
}

/* Its own say where its arguments and its environment are (PR_SET_MM_MAP): so many bytes of them. */
static void arguments(size_t size) {
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) exit(1);
    memset(memory, 'x', size < 4096 ? size - 1 : 4096); /* the last byte is 0, else it is taken for a title */
    struct prctl_mm_map map = {.exe_fd = -1};
    unsigned long field[53] = {0};
    char text[4096];
    FILE *stat = fopen("/proc/self/stat", "r");
    size_t length = fread(text, 1, sizeof text - 1, stat);
    text[length] = 0;
    int number = 3;
    for (char *word = strtok(strrchr(text, ')') + 2, " "); word && number < 53; word = strtok(NULL, " "))
        field[number++] = strtoul(word, NULL, 10);
    map.start_code = field[26], map.end_code = field[27], map.start_stack = field[28];
    map.start_data = field[45], map.end_data = field[46], map.start_brk = field[47], map.brk = (uintptr_t)sbrk(0);
    map.arg_start = map.env_start = (uintptr_t)memory, map.arg_end = map.env_end = (uintptr_t)memory + size;
    CHECK(prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0));
    wait_on();
}

static void mappings(size_t count) {
    for (size_t at = 0; at < count; at++)
        if (mmap(NULL, 4096, at % 2 ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            break;
    burn_on();
}

static void descriptors(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (open("/dev/null", O_RDONLY) >= 0) {}
    burn_on();
}

static void *sleeper(void *nothing) {
    for (;;) pause();
    return nothing;
}

static void threads(size_t count) {
    pthread_attr_t small;
    pthread_t started;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (size_t at = 0; at < count; at++)
        if (pthread_create(&started, &small, sleeper, NULL)) break;
    burn_on();
}

static void names(void) {
    char name[16] = "";
    ready();
    for (;;) {
        for (int at = 0; at < 15; at++) name[at] = (char)(1 + rand() % 255);
        prctl(PR_SET_NAME, name);
        for (int round = 0; round < 100; round++) result += round;
        usleep(5000);
    }
}

static void crowd(size_t count) {
    for (size_t at = 0; at < count; at++) {
        pid_t child = fork();
        if (child < 0) break;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
    }
    wait_on();
}

static void forks(void) {
    ready();
    for (;;) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        if (child > 0) waitpid(child, NULL, 0);
    }
}

/* A virtual machine of Java for who looks at its mappings: in a root of its own, whose /tmp leads to another's folder. */
static void *answering(void *socket_of_it) {
    static char line[1 << 16];
    memset(line, '"', sizeof line);
    for (;;) {
        int listening = *(int *)socket_of_it, connection = accept(listening, NULL, NULL);
        if (connection < 0) continue;
        if (write(connection, "0\n", 2) == 2)
            while (write(connection, line, sizeof line) > 0) {}
        close(connection);
    }
    return NULL;
}

static void nothing(int number) { (void)number; }

static void java(const char *folder, const char *victim) {
    char path[4096];
    CHECK(chdir(folder));
    int library = open("libjvm.so", O_CREAT | O_RDWR, 0755);
    CHECK(library);
    CHECK(ftruncate(library, 4096));
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, library, 0) == MAP_FAILED) exit(1);
    static int listening;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGQUIT, nothing);
    if (victim) {
        CHECK(symlink(victim, "tmp"));
    } else {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        CHECK(mkdir("tmp", 0777));
        snprintf(address.sun_path, sizeof address.sun_path, "tmp/.java_pid%d", getpid());
        listening = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(bind(listening, (struct sockaddr *)&address, sizeof address));
        CHECK(chmod(address.sun_path, 0600));
        CHECK(listen(listening, 16));
        snprintf(path, sizeof path, "tmp/perf-%d.map", getpid());
        CHECK(mkfifo(path, 0666));
    }
    CHECK(unshare(CLONE_NEWUSER));
    CHECK(chroot("."));
    pthread_t started;
    if (!victim) pthread_create(&started, NULL, answering, &listening);
    burn_on();
}

int main(int count, char **argument) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char *how = count > 1 ? argument[1] : "", *more = count > 2 ? argument[2] : NULL;
    size_t number = more ? strtoul(more, NULL, 10) : 0;
    if (!strcmp(how, "arguments")) arguments(number);
    if (!strcmp(how, "mappings")) mappings(number);
    if (!strcmp(how, "descriptors")) descriptors();
    if (!strcmp(how, "threads")) threads(number);
    if (!strcmp(how, "names")) names();
    if (!strcmp(how, "crowd")) crowd(number);
    if (!strcmp(how, "forks")) forks();
    if (!strcmp(how, "java")) java(more, count > 3 ? argument[3] : NULL);
    if (!strcmp(how, "burn")) burn_on();
    fprintf(stderr, "hostile: no way %s\n", how);
    return 2;
}
