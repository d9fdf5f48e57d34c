/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders: a small web shop that is slow now and then, for trying spanprof on.
 *
 * Worker threads take one HTTP request per connection from a loopback port and call
 * handle_request(method, path, reply), the function whose executions are the requests. Each route is
 * slow for a reason of its own: it computes, sleeps, waits for a lock that another route holds
 * while it computes, or waits for the stock server (a thread here, behind a socket). It ends by
 * itself after the given time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Keeps a function a frame of its own, so that the tree shows what the source says. */
#define FRAME __attribute__((noinline))

enum { PATH_BYTES = 256, BODY_BYTES = 512, REQUEST_BYTES = 2048, WORKERS_MAX = 64 };

struct reply {
	int status;
	char body[BODY_BYTES];
};

struct shop {
	pthread_mutex_t book; /* guards the ledger */
	uint64_t ledger;
	int listen_fd;
	int stock_fd; /* listening socket of the stock server */
	struct sockaddr_in stock_address;
};

/* One shop: handle_request has the signature of a usual handler, without a context argument. */
static struct shop shop = {.book = PTHREAD_MUTEX_INITIALIZER, .listen_fd = -1, .stock_fd = -1};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static FRAME uint64_t mix_digest(uint64_t x)
{
	for (int i = 0; i < 100000; i++)
		x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ULL;
	return x;
}

/* Computes for about ms milliseconds of this thread's time. */
static FRAME uint64_t compute(int ms)
{
	struct timespec t;
	uint64_t x = ms, start, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	start = (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	do {
		x = mix_digest(x);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	} while (now - start < (uint64_t)ms * 1000000);
	return x;
}

static FRAME void lock_book(void)
{
	pthread_mutex_lock(&shop.book);
}

static FRAME uint64_t price_order(int id)
{
	return compute(id % 20 == 0 ? 60 : 1);
}

/* GET /orders/N: needs the book for a moment, and waits while a report is computed. */
static FRAME void show_order(int id, struct reply *reply)
{
	uint64_t price;

	lock_book();
	shop.ledger++;
	pthread_mutex_unlock(&shop.book);
	price = price_order(id);
	snprintf(reply->body, sizeof(reply->body), "order %d: %u\n", id,
		 (unsigned int)price % 1000);
}

static FRAME uint64_t sum_ledger(void)
{
	return compute(150) + shop.ledger;
}

/* GET /report: computes while it holds the book, which is what makes orders slow. */
static FRAME void make_report(struct reply *reply)
{
	uint64_t sum;

	lock_book();
	sum = sum_ledger();
	pthread_mutex_unlock(&shop.book);
	snprintf(reply->body, sizeof(reply->body), "sum %u\n", (unsigned int)sum % 1000);
}

static FRAME bool read_stock(int fd, char *line, size_t bytes)
{
	ssize_t n = recv(fd, line, bytes - 1, 0);

	line[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* GET /stock/N: asks the stock server, which is slow for every fourth article. */
static FRAME void ask_stock(int article, struct reply *reply)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char line[64] = "";

	snprintf(line, sizeof(line), "%d\n", article);
	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&shop.stock_address, sizeof(shop.stock_address)) ||
	    send(fd, line, strlen(line), MSG_NOSIGNAL) < 0 || !read_stock(fd, line, sizeof(line)))
		reply->status = 502;
	snprintf(reply->body, sizeof(reply->body), "%s\n", line);
	if (fd >= 0)
		close(fd);
}

static FRAME void wait_for_printer(int ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* GET /invoices/N: computes a little, then sleeps. */
static FRAME void print_invoice(int id, struct reply *reply)
{
	uint64_t x = compute(2);

	wait_for_printer(id % 5 == 0 ? 180 : 5);
	snprintf(reply->body, sizeof(reply->body), "invoice %d: %u\n", id, (unsigned int)x % 1000);
}

/* One call is one request; the arguments are what its name is made of. */
FRAME void handle_request(const char *method, const char *path, struct reply *reply);

void handle_request(const char *method, const char *path, struct reply *reply)
{
	int id;

	reply->status = 200;
	if (strcmp(method, "GET") != 0)
		reply->status = 405;
	else if (sscanf(path, "/orders/%d", &id) == 1)
		show_order(id, reply);
	else if (sscanf(path, "/stock/%d", &id) == 1)
		ask_stock(id, reply);
	else if (sscanf(path, "/invoices/%d", &id) == 1)
		print_invoice(id, reply);
	else if (strcmp(path, "/report") == 0)
		make_report(reply);
	else
		reply->status = 404;
}

static void serve_connection(int fd)
{
	char request[REQUEST_BYTES], method[16] = "", path[PATH_BYTES] = "", head[160];
	struct reply reply = {0};
	size_t n = 0;

	while (n < sizeof(request) - 1) {
		ssize_t got = recv(fd, request + n, sizeof(request) - 1 - n, 0);

		if (got <= 0)
			return;
		n += got;
		request[n] = 0;
		if (strstr(request, "\r\n\r\n"))
			break;
	}
	if (sscanf(request, "%15s %255s", method, path) != 2)
		return;
	handle_request(method, path, &reply);
	snprintf(head, sizeof(head),
		 "HTTP/1.1 %d -\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n", reply.status,
		 strlen(reply.body));
	if (send(fd, head, strlen(head), MSG_NOSIGNAL) > 0)
		send(fd, reply.body, strlen(reply.body), MSG_NOSIGNAL);
}

/* A socket that sends nothing within this time is given up. */
static void limit_wait(int fd, int seconds)
{
	struct timeval limit = {.tv_sec = seconds};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

static void *worker_main(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(shop.listen_fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			continue;
		limit_wait(fd, 5);
		serve_connection(fd);
		close(fd);
	}
	return NULL;
}

static void *stock_main(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept4(shop.stock_fd, NULL, NULL, SOCK_CLOEXEC);
		char line[64];

		if (fd < 0)
			continue;
		limit_wait(fd, 5);
		if (read_stock(fd, line, sizeof(line))) {
			wait_for_printer(atoi(line) % 4 == 0 ? 130 : 1);
			send(fd, "12 left", 7, MSG_NOSIGNAL);
		}
		close(fd);
	}
	return NULL;
}

/* A listening socket on the loopback address; port 0: any. -1 with errno set on error. */
static int listen_on(uint16_t port, struct sockaddr_in *ret)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				      .sin_port = htons(port)};
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 256) ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes)) {
		close(fd);
		return -1;
	}
	*ret = address;
	return fd;
}

static int start_threads(int n_workers)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, stock_main, NULL))
		return -1;
	pthread_setname_np(thread, "stock");
	for (int i = 0; i < n_workers; i++) {
		if (pthread_create(&thread, NULL, worker_main, NULL))
			return -1;
		pthread_setname_np(thread, "worker");
	}
	return 0;
}

int main(int argc, char **argv)
{
	int port = 0, n_workers = 4, seconds = 600, option;
	struct sockaddr_in address;
	uint64_t end;

	while ((option = getopt(argc, argv, "p:w:t:")) != -1) {
		if (option == 'p')
			port = atoi(optarg);
		else if (option == 'w')
			n_workers = atoi(optarg);
		else if (option == 't')
			seconds = atoi(optarg);
		else
			return 2;
	}
	if (port < 0 || port > UINT16_MAX || n_workers < 1 || n_workers > WORKERS_MAX ||
	    seconds < 1) {
		fprintf(stderr, "usage: orders [-p PORT] [-w WORKERS] [-t SECONDS]\n");
		return 2;
	}
	shop.listen_fd = listen_on(port, &address);
	shop.stock_fd = listen_on(0, &shop.stock_address);
	if (shop.listen_fd < 0 || shop.stock_fd < 0 || start_threads(n_workers)) {
		fprintf(stderr, "orders: cannot start on port %d: %s\n", port, strerror(errno));
		return 1;
	}
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	for (end = now_ns() + (uint64_t)seconds * 1000000000; now_ns() < end;)
		poll(NULL, 0, 500);
	return 0;
}
