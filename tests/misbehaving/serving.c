/* A server that computes: for each byte that comes in on a connection, a thread of that burns CPU time in `handle` and
   sends a byte back. Says its port on the standard output, and ends where the input does. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "commands.h"

static volatile unsigned long result;

__attribute__((noipa)) unsigned long handle(unsigned long rounds) {
    unsigned long x = rounds | 1;
    for (unsigned long i = 0; i < rounds; i++) x = x * 6364136223846793005UL + 1442695040888963407UL;
    return x;
}

static void *serve(void *connection) {
    char byte;
    int one = 1;
    setsockopt((int)(long)connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    while (read((int)(long)connection, &byte, 1) == 1) {
        result += handle(500000);
        if (write((int)(long)connection, &byte, 1) != 1) break;
    }
    close((int)(long)connection);
    return NULL;
}

static void *accepting(void *listener) {
    for (;;) {
        pthread_t started;
        int connection = accept((int)(long)listener, NULL, NULL);
        if (connection >= 0 && !pthread_create(&started, NULL, serve, (void *)(long)connection)) pthread_detach(started);
    }
    return NULL;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 64) ||
        getsockname(listener, (struct sockaddr *)&address, &size)) {
        perror("serving");
        return 1;
    }
    pthread_t started;
    pthread_create(&started, NULL, accepting, (void *)(long)listener);
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return obey();
}
