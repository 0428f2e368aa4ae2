/* A rank of MPI that sends to itself: each line names a probe, and how often it is hit. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 100 };

int main(int count, char **arguments) {
    MPI_Init(&count, &arguments);
    int ranks = 0, rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < ROUNDS; round++) {
        int out = round, in = -1, sum = -1;
        MPI_Request request;
        MPI_Sendrecv(&out, 1, MPI_INT, rank, 7, &in, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (in != round) return 1;
        MPI_Irecv(&in, 1, MPI_INT, rank, 8, MPI_COMM_WORLD, &request);
        MPI_Send(&out, 1, MPI_INT, rank, 8, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Allreduce(&out, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (in != round || sum != ranks * round) return 2;
    }
    for (int round = 0; round < ROUNDS; round++) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    const char *names[] = {"sendrecv", "irecv", "send", "wait", "allreduce", "barrier"};
    for (int at = 0; at < 6; at++) printf("mpi::%s %d\n", names[at], ROUNDS);
    return 0;
}
