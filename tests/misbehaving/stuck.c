/* Sleeps uninterruptibly, as on a disk that does not answer: it waits for a child of vfork(2) that neither ends nor
   calls exec. */
#define _GNU_SOURCE
#include "commands.h"
#include <sys/prctl.h>
#include <signal.h>

int main(void) {
    announce("vfork");
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    return 0;
}
