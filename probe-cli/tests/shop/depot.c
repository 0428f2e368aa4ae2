/* A depot that nobody has prepared: two clerks share a ledger, and read parcels. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static long weight;

static void *clerk(void *parcels) {
    int belt = open("/dev/zero", O_RDONLY);
    for (long parcel = 0; parcel < (long)parcels; parcel++) {
        char *label = malloc(64);
        if (read(belt, label, 48) == 48) {
            pthread_mutex_lock(&ledger);
            weight += label[0] + parcel;
            pthread_mutex_unlock(&ledger);
        }
        free(label);
    }
    close(belt);
    return 0;
}

int main(void) {
    pthread_t other;
    pthread_create(&other, 0, clerk, (void *)300);
    clerk((void *)200);
    pthread_join(other, 0);
    char *lost = malloc(4096);
    return lost == 0 || weight != 300 * 299 / 2 + 200 * 199 / 2;
}
