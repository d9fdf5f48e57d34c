/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mysqld: commands of clients as MySQL 5.7 and 8.0 serve them, as far as the function's name, its
 * parameters and what they lead to go: each command takes some milliseconds.
 *
 *   mysqld COUNT
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "stage.h"

enum enum_server_command {
	COM_SLEEP,
	COM_QUIT,
	COM_INIT_DB,
	COM_QUERY,
	COM_PING = 14,
	COM_STMT_PREPARE = 22
};

struct COM_QUERY_DATA {
	const char *query;
	unsigned int length;
	void *parameters;
	unsigned long parameter_count;
};

struct COM_INIT_DB_DATA {
	const char *db_name;
	unsigned long length;
};

union COM_DATA {
	COM_INIT_DB_DATA com_init_db;
	COM_QUERY_DATA com_query;
};

class THD
{
      public:
	long n_commands = 0;
};

bool dispatch_command(THD *thd, const COM_DATA *com_data, enum enum_server_command command);

__attribute__((noinline)) bool dispatch_command(THD *thd, const COM_DATA *com_data,
						enum enum_server_command command)
{
	thd->n_commands++;
	std::this_thread::sleep_for(std::chrono::milliseconds(4));
	return command != COM_PING && com_data->com_query.query[0] == '\0';
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1, n_bad = 0;
	static const char all[] = "select 'secret', 42 from tables";
	THD thd;

	wait_for_line("ready", 0);
	for (long i = 0; i < count; i++) {
		COM_DATA data;

		/* The text does not end where the query does. */
		data.com_query = {all, 19, nullptr, 0};
		n_bad += dispatch_command(&thd, &data, COM_QUERY);
		data.com_query.length = sizeof(all) - 1;
		n_bad += dispatch_command(&thd, &data, COM_STMT_PREPARE);
		data.com_init_db = {"shop", 4};
		n_bad += dispatch_command(&thd, &data, COM_INIT_DB);
		n_bad += dispatch_command(&thd, nullptr, COM_PING);
	}
	wait_for_line("done", 0);
	return n_bad != 0 || thd.n_commands != 4 * count;
}
