/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load: sends requests to the orders server on a loopback port, a bounded number of them and for a
 * bounded time, from several threads, and prints how many were answered.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 64 };

struct load {
	struct sockaddr_in server;
	uint64_t end_ns;
	int n_requests;
	atomic_int next;
	atomic_int answered;
	atomic_int failed;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Of 40 requests: one report, four invoices, five stock questions, thirty orders. */
static void path_of(int i, char *path, size_t bytes)
{
	if (i % 40 == 20)
		snprintf(path, bytes, "/report");
	else if (i % 10 == 3)
		snprintf(path, bytes, "/invoices/%d", i / 10);
	else if (i % 8 == 1)
		snprintf(path, bytes, "/stock/%d", i / 8);
	else
		snprintf(path, bytes, "/orders/%d", i);
}

static bool send_request(const struct sockaddr_in *server, int i)
{
	struct timeval limit = {.tv_sec = 10};
	char path[64], text[256], status[32] = "";
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = false;

	if (fd < 0)
		return false;
	path_of(i, path, sizeof(path));
	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (const struct sockaddr *)server, sizeof(*server)) &&
	    send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text)) {
		ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

		text[n > 0 ? n : 0] = 0;
		good = sscanf(text, "HTTP/1.1 %31s", status) == 1 && !strcmp(status, "200");
		while (n > 0)
			n = recv(fd, text, sizeof(text), 0);
	}
	close(fd);
	return good;
}

static void *client_main(void *arg)
{
	struct load *load = arg;

	while (now_ns() < load->end_ns) {
		int i = atomic_fetch_add(&load->next, 1);

		if (i >= load->n_requests)
			break;
		if (send_request(&load->server, i))
			atomic_fetch_add(&load->answered, 1);
		else
			atomic_fetch_add(&load->failed, 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int port = 0, n_threads = 4, seconds = 10, option;
	struct load load = {.n_requests = 400};
	pthread_t threads[THREADS_MAX];

	while ((option = getopt(argc, argv, "p:n:c:t:")) != -1) {
		if (option == 'p')
			port = atoi(optarg);
		else if (option == 'n')
			load.n_requests = atoi(optarg);
		else if (option == 'c')
			n_threads = atoi(optarg);
		else if (option == 't')
			seconds = atoi(optarg);
		else
			return 2;
	}
	if (port < 1 || port > UINT16_MAX || load.n_requests < 1 || n_threads < 1 ||
	    n_threads > THREADS_MAX || seconds < 1) {
		fprintf(stderr, "usage: load -p PORT [-n REQUESTS] [-c THREADS] [-t SECONDS]\n");
		return 2;
	}
	load.server = (struct sockaddr_in){.sin_family = AF_INET,
					   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
					   .sin_port = htons(port)};
	load.end_ns = now_ns() + (uint64_t)seconds * 1000000000;
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, client_main, &load))
			return 1;
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	printf("%d answered, %d failed\n", load.answered, load.failed);
	return load.failed || !load.answered;
}
