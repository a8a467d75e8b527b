// job: see the header.
#include "tests/c/job.h"

#include <pthread.h>

enum { kMostRanks = 16 };

struct rank_thread {
  pthread_t thread;
  weft_store* store;
  const char* const* settings;
  rank_function function;
};

static void* run_rank(void* argument) {
  const struct rank_thread* self = argument;
  weft_config* config = NULL;
  OK(weft_config_new(&config));
  OK(weft_config_set(config, "WEFT_DEADLINE_MS", "20000"));
  const char* transports = getenv("WEFT_TRANSPORTS");
  if (transports != NULL) OK(weft_config_set(config, "WEFT_TRANSPORTS", transports));
  for (const char* const* at = self->settings; at != NULL && *at != NULL; at += 2)
    OK(weft_config_set(config, at[0], at[1]));
  weft_context* context = NULL;
  OK(weft_context_create(config, self->store, &context));
  OK(weft_store_free(self->store));  // the context keeps what it needs
  OK(weft_config_free(config));
  self->function(context);
  OK(weft_context_free(context));
  return NULL;
}

void run_ranks(int n, const char* const* settings, rank_function function) {
  CHECK(n <= kMostRanks);
  weft_store* stores[kMostRanks];
  struct rank_thread ranks[kMostRanks];
  OK(weft_store_make_local(n, stores));
  for (int rank = 0; rank < n; ++rank) {
    ranks[rank] =
        (struct rank_thread){.store = stores[rank], .settings = settings, .function = function};
    CHECK(pthread_create(&ranks[rank].thread, NULL, run_rank, &ranks[rank]) == 0);
  }
  for (int rank = 0; rank < n; ++rank) CHECK(pthread_join(ranks[rank].thread, NULL) == 0);
}

int run_test(int argc, char** argv, rank_function function) {
  bound_time(120);
  if (argc > 1) {
    run_ranks(atoi(argv[1]), NULL, function);
    return 0;
  }
  weft_context* context = NULL;
  OK(weft_context_from_environment(&context));
  function(context);
  OK(weft_context_free(context));
  return 0;
}
