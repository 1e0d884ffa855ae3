/* A process whose files below /proc do not answer: it begins another program while it has a file open of a file system
   (FUSE) that does not answer when that is closed. Answers when its server ends: at the end of the input, or after 20 s. */
#define _GNU_SOURCE
#include "commands.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void reply(int device, const struct fuse_in_header *asked, int error, const void *data, size_t size) {
    char text[4096];
    struct fuse_out_header head = {.len = sizeof head + size, .error = error, .unique = asked->unique};
    memcpy(text, &head, sizeof head);
    if (size) memcpy(text + sizeof head, data, size);
    CHECK(write(device, text, head.len));
}

static void serve(int device) {
    static char text[1 << 17];
    const struct fuse_in_header *asked = (void *)text;
    for (;;) {
        if (read(device, text, sizeof text) < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT) continue;
            exit(0);
        }
        struct fuse_attr attr = {.ino = asked->nodeid, .nlink = 1, .size = 4096};
        attr.mode = asked->nodeid == 1 ? S_IFDIR | 0777 : S_IFREG | 0666;
        if (asked->opcode == FUSE_INIT) {
            struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
            reply(device, asked, 0, &out, sizeof out);
        } else if (asked->opcode == FUSE_LOOKUP) {
            attr.ino = 2, attr.mode = S_IFREG | 0666;
            struct fuse_entry_out out = {.nodeid = 2, .attr = attr};
            reply(device, asked, 0, &out, sizeof out);
        } else if (asked->opcode == FUSE_GETATTR) {
            struct fuse_attr_out out = {.attr = attr};
            reply(device, asked, 0, &out, sizeof out);
        } else if (asked->opcode == FUSE_OPEN) {
            struct fuse_open_out out = {.fh = 1};
            reply(device, asked, 0, &out, sizeof out);
        } else if (asked->opcode == FUSE_FLUSH) { /* never */
            puts("hanging");
            fflush(stdout);
        } else if (asked->opcode != FUSE_FORGET) {
            reply(device, asked, -ENOSYS, NULL, 0);
        }
    }
}

int main(int count, char **argument) {
    char options[100];
    if (count != 2) return 2;
    CHECK(unshare(CLONE_NEWNS));
    CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
    int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    CHECK(device);
    sprintf(options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
    CHECK(mount("fuse", argument[1], "fuse", MS_NOSUID | MS_NODEV, options));
    int server = fork();
    CHECK(server);
    if (server == 0) serve(device);
    int watch = fork();
    CHECK(watch);
    if (watch == 0) {
        char byte;
        close(device);
        signal(SIGALRM, SIG_DFL);
        alarm(20);
        int ender = fork(); /* whatever happens to the one that reads */
        if (ender == 0) {
            sleep(20);
            kill(server, SIGKILL);
            _exit(0);
        }
        while (read(STDIN_FILENO, &byte, 1) > 0) {}
        kill(server, SIGKILL);
        kill(ender, SIGKILL);
        _exit(0);
    }
    CHECK(chdir(argument[1]));
    CHECK(open("file", O_RDWR | O_CLOEXEC));
    CHECK(chdir("/"));
    printf("%d\n", getpid());
    fflush(stdout);
    execl("/bin/sleep", "sleep", "60", NULL);
    return 1;
}
