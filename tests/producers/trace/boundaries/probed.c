/* A program with functions and with a probe (USDT) as <sys/sdt.h> makes it: a request for each line that it reads. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Counted up by whoever traces; the tracer finds it through the probe's note. */
__attribute__((section(".probes"), used)) volatile unsigned short shop_begin_semaphore;

#define NOTE(name, semaphore, arguments)                                        \
    ".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n"                       \
    ".4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n992: .balign 4\n" \
    "993: .8byte 990b\n.8byte 0\n.8byte " semaphore "\n"                        \
    ".asciz \"shop\"\n.asciz \"" name "\"\n.asciz \"" arguments "\"\n"          \
    "994: .balign 4\n.popsection\n"

__attribute__((noinline)) int handle(const char *line) {
    if (shop_begin_semaphore) {
        __asm__ volatile("990: nop\n" NOTE("begin", "shop_begin_semaphore", "8@%%rdi -4@%%esi")::"D"(line), "S"(7));
    }
    usleep(2000);
    __asm__ volatile("990: nop\n" NOTE("end", "0", ""));
    return (int)strlen(line);
}

int main(void) {
    char line[256];
    long total = 0;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        total += handle(line);
    }
    printf("%ld\n", total);
    return 0;
}
