/*
 * dnsflood.c - asks ADDRESS for a name that nobody answers, as fast as it can, for SECONDS; and
 * opens as many connections to it as it gets.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FLOOD_CONNECTIONS 300
#define FLOOD_PAUSE_EVERY 50

int main(int argc, char **argv)
{
	/* slow.test, A */
	unsigned char ask[] = "\0\0\1\0\0\1\0\0\0\0\0\0\4slow\4test\0\0\1\0\1";
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
	time_t end = time(NULL) + (argc > 2 ? strtol(argv[2], NULL, 10) : 1);
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	if (argc < 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1)
		return 2;
	for (int i = 0; i < FLOOD_CONNECTIONS; i++)
		connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (struct sockaddr *)&to,
			sizeof(to));
	for (unsigned n = 0; time(NULL) < end; n++) {
		ask[0] = (unsigned char)(n >> 8);
		ask[1] = (unsigned char)n;
		sendto(s, ask, sizeof(ask) - 1, 0, (struct sockaddr *)&to, sizeof(to));
		if (n % FLOOD_PAUSE_EVERY == 0)
			usleep(200);
	}
	return 0;
}
