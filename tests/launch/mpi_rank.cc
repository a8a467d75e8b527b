// A rank of MPI and nothing else: a program that knows PMIx and not Weft. Sums the ranks' numbers
// and prints one line when the sum is right.
#include <mpi.h>

#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  int sum = 0;
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (sum == size * (size - 1) / 2) std::printf("rank %d of %d: all right\n", rank, size);
  return MPI_Finalize();
}
