/* The least that a client of streamed replies can do: what any other costs is told as a multiple of this, measured in the same run.
 *
 *     floor PORT STREAMS REQUESTS TOKENS LOG
 *
 * A closed loop of STREAMS connections. Per read: one recv into one buffer and one look at the clock. It parses nothing, takes a reply for over when
 * a read ends in an empty last chunk, and knows of one fault only (the connection is gone: it gives up). LOG: one line a request: x-request-id, sent,
 * first token (CLOCK_MONOTONIC ns; the first read that holds more than the head), and the reads of the reply: with fewer than tokens + 1 some were merged.
 * Linux only.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_BYTES = 80 }; /* of the truth server's reply */

struct stream { int fd, request, reads; int64_t sent_ns, first_ns; };

static int port, tokens, left, next_request;
static FILE *log_file;

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void die(const char *what) { perror(what), exit(1); }

static void ask(struct stream *s) {
    char body[1024], request[2048];
    int size = snprintf(body, sizeof body, "{\"model\":\"truth\",\"messages\":[{\"role\":\"user\",\"content\":\"%0256d\"}],\"max_tokens\":%d,\"stream\":true}", 0, tokens);
    s->request = next_request++, s->reads = 0, s->first_ns = 0;
    int all = snprintf(request, sizeof request,
                       "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nx-request-id: floor-%d\r\ncontent-length: %d\r\n\r\n%s", port,
                       s->request, size, body);
    s->sent_ns = monotonic_ns();
    if (send(s->fd, request, all, MSG_NOSIGNAL) != all) die("send");
}

/* Returns whether the stream is at its end and nothing is left to ask. */
static int take(struct stream *s) {
    static char buffer[1 << 16];
    ssize_t got = recv(s->fd, buffer, sizeof buffer, 0);
    int64_t now = monotonic_ns();
    if (got <= 0) die("recv");
    s->reads++;
    if (!s->first_ns && (s->reads > 1 || got > HEAD_BYTES)) s->first_ns = now;
    if (got < 5 || memcmp(buffer + got - 5, "0\r\n\r\n", 5)) return 0;
    fprintf(log_file, "floor-%d %lld %lld %d\n", s->request, (long long)s->sent_ns, (long long)s->first_ns, s->reads);
    if (left-- <= 0) return 1;
    ask(s);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "usage: floor PORT STREAMS REQUESTS TOKENS LOG\n"), 2;
    int streams = atoi(argv[2]), poller = epoll_create1(0), on = 1;
    port = atoi(argv[1]), left = atoi(argv[3]) - streams, tokens = atoi(argv[4]), log_file = fopen(argv[5], "w");
    if (!log_file) die(argv[5]);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files), files.rlim_cur = files.rlim_max, setrlimit(RLIMIT_NOFILE, &files);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct stream *all = calloc(streams, sizeof *all);
    if (!all) die("calloc");
    for (int i = 0; i < streams; i++) {
        all[i].fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(all[i].fd, (void *)&there, sizeof there)) die("connect");
        setsockopt(all[i].fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &all[i]});
    }
    for (int i = 0; i < streams; i++) ask(&all[i]);
    for (int open = streams; open > 0;) {
        struct epoll_event ready[256];
        int count = epoll_wait(poller, ready, 256, 60000);
        if (count == 0) return fprintf(stderr, "the server has said nothing for a minute\n"), 1;
        for (int i = 0; i < count; i++) open -= take(ready[i].data.ptr);
    }
    return fclose(log_file) != 0;
}
