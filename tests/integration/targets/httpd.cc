/* SPDX-License-Identifier: Apache-2.0 */
/*
 * httpd: an HTTP server of libmicrohttpd. Its handler is called twice for each request: when the headers
 * are there, and when all is. /slow takes 150 ms longer; what is missing is told by an exception.
 *
 *   httpd PORT
 *
 * Prints "ready", serves until the end of input.
 */
#include <microhttpd.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "stage.h"

namespace
{
constexpr useconds_t SLOW_US = 150000;
constexpr unsigned int THREADS = 2;
} // namespace

struct Api {
	FRAME std::string route(const std::string &path, int turns);
	long served = 0;
};

/* Returned by way of memory: the object is the second argument, the path the third. */
std::string Api::route(const std::string &path, int turns)
{
	if (path == "/nosuch")
		throw std::out_of_range(path);
	if (path == "/slow")
		usleep(SLOW_US);
	__atomic_fetch_add(&served, 1, __ATOMIC_RELAXED);
	return path + std::to_string(turns) + "\n";
}

FRAME MHD_Result on_request(void *api, MHD_Connection *connection, const char *url, const char *,
			    const char *, const char *, size_t *, void **state)
{
	unsigned int status = MHD_HTTP_OK;
	std::string text;

	if (!*state) {
		*state = api; /* anything that is not NULL */
		return MHD_YES;
	}
	try {
		text = static_cast<Api *>(api)->route(url, 1);
	} catch (const std::out_of_range &) {
		status = MHD_HTTP_NOT_FOUND;
	}
	MHD_Response *response =
		MHD_create_response_from_buffer(text.size(), text.data(), MHD_RESPMEM_MUST_COPY);
	MHD_Result result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

int main(int argc, char **argv)
{
	Api api;
	MHD_Daemon *daemon = nullptr;

	if (argc == 2)
		daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD,
					  static_cast<uint16_t>(atoi(argv[1])), nullptr, nullptr,
					  on_request, &api, MHD_OPTION_THREAD_POOL_SIZE, THREADS,
					  MHD_OPTION_END);
	if (!daemon)
		return 1;
	wait_for_line("ready", 0);
	MHD_stop_daemon(daemon);
	return 0;
}
