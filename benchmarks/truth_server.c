/* A server that knows when it sent what, for the benchmarks: it stands in for an inference engine and costs as little as possible.
 *
 *     truth_server STEP_US LOG
 *
 * It listens on a free port of loopback and prints the port. POST with "stream":true: the reply's head at once, then one token at each tick of a
 * timer (every STEP_US), for all replies under way one after the other, until there are as many as the request's max_tokens (or
 * max_completion_tokens) says. POST without it: the whole reply at once. Anything else gets an empty 404.
 *
 * When standard input ends, or on SIGTERM, it writes LOG and ends: one line a reply, in CLOCK_MONOTONIC nanoseconds,
 *
 *     x-request-id  read  first  last  tokens
 *
 * read: after the recv that completed the request; first, last: after the send of the first and of the last token returned (of a whole reply: after
 * its send). Replies that did not come to their end are not in it. Linux only. Not a general server: a request's head must come with its first read,
 * and a socket that takes no more bytes loses its connection.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 256, ID = 48, INPUT = 1 << 16 };

struct reply { char id[ID]; int64_t read_ns, first_ns, last_ns; int tokens; };

struct client {
    int fd, wanted, given, place; /* place: where it stands among those that stream, -1 when it does not */
    size_t have;                  /* bytes in input */
    char *input;
    struct reply now;
};

static struct client **streaming; /* those that get a token at the next tick */
static int streaming_count, streaming_room;
static struct reply *done; /* the log, in memory until the end */
static size_t done_count, done_room;
static volatile sig_atomic_t stopping;

static const char HEAD[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
static const char FRAME[] = "{\"id\":\"chatcmpl-truth\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"truth\",";
static const char OVER[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

static void die(const char *what) { perror(what), exit(1); }

static int64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void *grown(void *memory, int needed, int *room, size_t size) {
    if (needed <= *room) return memory;
    *room = needed * 2;
    if (!(memory = realloc(memory, *room * size))) die("realloc");
    return memory;
}

static void leave_stream(struct client *c) {
    struct client *last = streaming[--streaming_count];
    streaming[last->place = c->place] = last;
    c->place = -1;
}

static void hang_up(struct client *c) {
    if (c->place >= 0) leave_stream(c);
    close(c->fd);
    free(c->input);
    free(c);
}

static int put(struct client *c, const char *bytes, size_t size) { return send(c->fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size; }

/* One event of the stream, in a chunk of its own. */
static int put_event(struct client *c, const char *form, ...) {
    char event[512], chunk[600];
    va_list values;
    va_start(values, form);
    int size = vsnprintf(event, sizeof event, form, values);
    va_end(values);
    return put(c, chunk, snprintf(chunk, sizeof chunk, "%x\r\n%s\r\n", size, event));
}

static void remember(struct client *c) {
    if (done_count == done_room && !(done = realloc(done, (done_room = done_room ? 2 * done_room : 4096) * sizeof *done))) die("realloc");
    done[done_count++] = c->now;
}

static void give_token(struct client *c) {
    int is_last = c->given + 1 == c->wanted;
    if (!put_event(c, "data: %s\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word%d\"},\"logprobs\":null,\"finish_reason\":%s}]}\n\n", FRAME,
                   c->given, is_last ? "\"length\"" : "null")) {
        hang_up(c);
        return;
    }
    c->now.last_ns = monotonic_ns();
    if (c->given++ == 0) c->now.first_ns = c->now.last_ns;
    if (!is_last) return;
    leave_stream(c);
    c->now.tokens = c->given;
    if (put_event(c, "data: %s\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", FRAME, c->given,
                  c->given + 1) && put(c, OVER, sizeof OVER - 1))
        remember(c);
    else
        hang_up(c);
}

static void tick(void) {
    for (int i = streaming_count; i-- > 0;) give_token(streaming[i]); /* backwards: whoever ends has its place taken by one that was served */
}

static void answer_whole(struct client *c) {
    char body[512], reply[1024];
    int size = snprintf(body, sizeof body,
                        "{\"id\":\"chatcmpl-truth\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"truth\",\"choices\":[{\"index\":0,"
                        "\"message\":{\"role\":\"assistant\",\"content\":\"one\"},\"finish_reason\":\"length\"}],"
                        "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1,\"total_tokens\":2}}");
    int all = snprintf(reply, sizeof reply, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", size, body);
    if (!put(c, reply, all)) {
        hang_up(c);
        return;
    }
    c->now.first_ns = c->now.last_ns = monotonic_ns();
    c->now.tokens = 1;
    remember(c);
}

static long after(const char *text, const char *name) {
    const char *found = strstr(text, name);
    return found ? strtol(found + strlen(name) + strspn(found + strlen(name), "\": "), NULL, 10) : 0;
}

/* A whole request stands in c->input. */
static void serve(struct client *c, const char *body) {
    memset(&c->now, 0, sizeof c->now);
    c->now.read_ns = monotonic_ns();
    const char *id = strcasestr(c->input, "\r\nx-request-id:");
    if (!id || id > body || sscanf(id + 15, " %47[^\r\n ]", c->now.id) != 1) strcpy(c->now.id, "-");
    if (strncmp(c->input, "POST ", 5)) {
        static const char none[] = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        if (!put(c, none, sizeof none - 1)) hang_up(c);
    } else if (!strstr(body, "\"stream\":true") && !strstr(body, "\"stream\": true")) {
        answer_whole(c);
    } else if (!put(c, HEAD, sizeof HEAD - 1)) {
        hang_up(c);
    } else {
        long wanted = after(body, "\"max_completion_tokens\"");
        c->wanted = wanted > 0 || (wanted = after(body, "\"max_tokens\"")) > 0 ? wanted : 16;
        c->given = 0;
        streaming = grown(streaming, streaming_count + 1, &streaming_room, sizeof *streaming);
        streaming[c->place = streaming_count++] = c;
    }
}

static void take(struct client *c) {
    ssize_t got = recv(c->fd, c->input + c->have, INPUT - 1 - c->have, 0);
    if (got <= 0) {
        if (got == 0 || errno != EAGAIN) hang_up(c);
        return;
    }
    c->input[c->have += got] = 0;
    char *body = strstr(c->input, "\r\n\r\n");
    if (!body) {
        if (c->have == INPUT - 1) hang_up(c);
        return;
    }
    body += 4;
    char *length = strcasestr(c->input, "\r\ncontent-length:");
    size_t needed = body - c->input + (length && length < body ? strtoul(length + 17, NULL, 10) : 0);
    if (needed > INPUT - 1) hang_up(c);
    else if (c->have >= needed) c->have = 0, serve(c, body);
}

static void admit(int listener, int poller) {
    for (int fd, on = 1; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        struct client *c = calloc(1, sizeof *c);
        if (!c || !(c->input = malloc(INPUT))) die("malloc");
        c->fd = fd, c->place = -1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = c})) die("epoll_ctl");
    }
}

static void on_term(int number) { (void)number, stopping = 1; }

int main(int argc, char **argv) {
    if (argc != 3) return fprintf(stderr, "usage: truth_server STEP_US LOG\n"), 2;
    long step_us = strtol(argv[1], NULL, 10);
    FILE *log = fopen(argv[2], "w");
    if (!log) die(argv[2]);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files), files.rlim_cur = files.rlim_max, setrlimit(RLIMIT_NOFILE, &files);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    signal(SIGINT, SIG_IGN);

    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), poller = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    if (bind(listener, (void *)&here, size) || listen(listener, 16384) || getsockname(listener, (void *)&here, &size)) die("listen");
    struct timespec step = {step_us / 1000000, step_us % 1000000 * 1000};
    timerfd_settime(timer, 0, &(struct itimerspec){step, step}, NULL);
    static char marks[3]; /* their addresses tell the three descriptors below from clients */
    int own[3] = {listener, timer, STDIN_FILENO};
    for (int i = 0; i < 3; i++)
        if (epoll_ctl(poller, EPOLL_CTL_ADD, own[i], &(struct epoll_event){.events = EPOLLIN, .data.ptr = &marks[i]})) die("epoll_ctl (stdin must be a pipe)");
    printf("%d\n", ntohs(here.sin_port)), fflush(stdout);

    while (!stopping) {
        struct epoll_event ready[BATCH];
        int count = epoll_wait(poller, ready, BATCH, -1), due = 0;
        for (int i = 0; i < count; i++) {
            void *who = ready[i].data.ptr;
            char rest[256];
            uint64_t ticks;
            if (who == &marks[0]) admit(listener, poller);
            else if (who == &marks[1]) due = read(timer, &ticks, sizeof ticks) == sizeof ticks;
            else if (who == &marks[2]) stopping |= read(STDIN_FILENO, rest, sizeof rest) <= 0;
            else take(who);
        }
        if (due) tick(); /* after the batch: a client that a token hangs up on is in no event still to be looked at */
    }
    for (size_t i = 0; i < done_count; i++)
        fprintf(log, "%s %lld %lld %lld %d\n", done[i].id, (long long)done[i].read_ns, (long long)done[i].first_ns, (long long)done[i].last_ns, done[i].tokens);
    return fclose(log) != 0;
}
