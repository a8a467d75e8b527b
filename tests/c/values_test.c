// values_test: what needs no job. Names, settings, stores, memory, structs of other versions; and
// for each of their functions what bad arguments lead to.
#include <pthread.h>

#include "tests/c/check.h"

static void test_names(void) {
  CHECK(strcmp(weft_version(), "0.3.0") == 0 && weft_version_number() == 300);
  CHECK(strcmp(weft_code_name(WEFT_OK), "ok") == 0);
  CHECK(strcmp(weft_code_name(WEFT_PEER_DIED), "peer_died") == 0);
  CHECK(strcmp(weft_code_name(-1), "unknown") == 0 && strcmp(weft_code_name(12), "unknown") == 0);
  CHECK(strcmp(weft_data_type_name(WEFT_BF16), "bf16") == 0);
  CHECK(strcmp(weft_data_type_name(WEFT_BYTES), "bytes") == 0 &&
        weft_data_type_size(WEFT_I16) == 2);
  CHECK(strcmp(weft_data_type_name(WEFT_E5M2), "e5m2") == 0 && weft_data_type_size(WEFT_E4M3) == 1);
  CHECK(strcmp(weft_data_type_name(15), "unknown") == 0);
  CHECK(weft_data_type_size(WEFT_F64) == 8 && weft_data_type_size(-1) == 0);
  weft_data_type type = -1;
  OK(weft_data_type_from_name("u32", &type));
  CHECK(type == WEFT_U32);
  INVALID(weft_data_type_from_name("u31", &type), "u31");
  INVALID(weft_data_type_from_name(NULL, &type), "weft_data_type_from_name: name is NULL");
  INVALID(weft_data_type_from_name("u32", NULL), "type is NULL");
  weft_algorithm algorithm = -1;
  OK(weft_algorithm_from_name("halving_doubling", &algorithm));
  CHECK(algorithm == WEFT_HALVING_DOUBLING);
  OK(weft_algorithm_from_name("auto", &algorithm));
  CHECK(algorithm == WEFT_AUTOMATIC);
  OK(weft_algorithm_from_name("nccl", &algorithm));
  CHECK(algorithm == WEFT_NCCL);
  INVALID(weft_algorithm_from_name("fast", &algorithm), "fast");
  INVALID(weft_algorithm_from_name("ring", NULL), "algorithm is NULL");
  weft_compression compression = -1;
  OK(weft_compression_from_name("sketch", &compression));
  CHECK(compression == WEFT_COMPRESSION_SKETCH);
  OK(weft_compression_from_name("e5m2", &compression));
  CHECK(compression == WEFT_COMPRESSION_E5M2);
  OK(weft_compression_from_name("low_rank", &compression));
  CHECK(compression == WEFT_COMPRESSION_LOW_RANK);
  INVALID(weft_compression_from_name("zip", &compression), "zip");
}

static void test_settings(void) {
  weft_config* config = NULL;
  char* value = NULL;
  OK(weft_config_new(&config));
  OK(weft_config_get(config, "WEFT_DEADLINE_MS", &value));
  CHECK(strcmp(value, "60000") == 0);
  weft_string_free(value);
  OK(weft_config_set(config, "WEFT_DEADLINE_MS", "1234"));
  OK(weft_config_get(config, "WEFT_DEADLINE_MS", &value));
  CHECK(strcmp(value, "1234") == 0);
  weft_string_free(value);
  OK(weft_config_check(config));
  INVALID(weft_config_set(config, "WEFT_DEADLINE_MS", "soon"), "milliseconds");
  INVALID(weft_config_set(config, "WEFT_DEADLINE", "1"), "WEFT_DEADLINE");
  INVALID(weft_config_set(config, NULL, "1"), "name is NULL");
  INVALID(weft_config_set(config, "WEFT_SIZE", NULL), "value is NULL");
  INVALID(weft_config_set(NULL, "WEFT_SIZE", "1"), "config is NULL");
  INVALID(weft_config_get(config, "PATH", &value), "PATH");
  CHECK(value == NULL);
  OK(weft_config_set(config, "WEFT_RANK", "5"));
  INVALID(weft_config_check(config), "WEFT_RANK");
  INVALID(weft_config_new(NULL), "config is NULL");
  OK(weft_config_free(config));
  INVALID(weft_config_check(config), "config is no weft_config");

  weft_store* stores[2] = {NULL, NULL};
  int32_t number = -1;
  OK(weft_store_make_local(2, stores));
  OK(weft_store_rank(stores[1], &number));
  CHECK(number == 1);
  OK(weft_store_size(stores[0], &number));
  CHECK(number == 2);
  INVALID(weft_store_size(stores[0], NULL), "size is NULL");
  OK(weft_store_free(stores[0]));
  OK(weft_store_free(stores[1]));
  INVALID(weft_store_rank(stores[1], &number), "store is no weft_store");
  INVALID(weft_store_make_local(0, stores), "");
  INVALID(weft_store_make_local(-1, stores), "");
  INVALID(weft_store_make_local(2, NULL), "stores is NULL");
  INVALID(weft_store_open(NULL, stores), "config is NULL");
  CHECK(stores[0] == NULL);
}

static void test_environment(void) {
  weft_config* config = NULL;
  char* value = NULL;
  CHECK(setenv("WEFT_DEADLINE_MS", "777", 1) == 0);
  OK(weft_config_from_environment(&config));
  OK(weft_config_get(config, "WEFT_DEADLINE_MS", &value));
  CHECK(strcmp(value, "777") == 0);
  weft_string_free(value);
  OK(weft_config_free(config));
  CHECK(setenv("WEFT_DEADLINE_MS", "soon", 1) == 0);
  INVALID(weft_config_from_environment(&config), "WEFT_DEADLINE_MS");
  CHECK(config == NULL);
  weft_context* context = NULL;
  INVALID(weft_context_from_environment(&context), "WEFT_DEADLINE_MS");
  CHECK(context == NULL && unsetenv("WEFT_DEADLINE_MS") == 0);
}

static void test_memory(void) {
  weft_heap_usage before = {.size = sizeof(before)}, after = before;
  void* memory = NULL;
  OK(weft_allocate(100000, &memory));
  OK(weft_get_heap_usage(&before));
  CHECK((uintptr_t)memory % 4096 == 0 && before.allocated_bytes >= 100000);
  CHECK(((char*)memory)[0] == 0 && ((char*)memory)[99999] == 0);
  INVALID(weft_deallocate((char*)memory + 64), "memory was not given by weft_allocate");
  INVALID(weft_deallocate(&before), "memory was not given by weft_allocate");
  OK(weft_deallocate(memory));
  INVALID(weft_deallocate(memory), "was given back before");
  OK(weft_deallocate(NULL));
  OK(weft_get_heap_usage(&after));
  CHECK(after.allocated_bytes < before.allocated_bytes);
  INVALID(weft_allocate(1, NULL), "memory is NULL");
  FAILS(weft_allocate((size_t)-1, &memory), WEFT_EXHAUSTED, "");
  CHECK(memory == NULL);
  INVALID(weft_get_heap_usage(NULL), "usage is NULL");
}

static void test_structs(void) {
  weft_graph* graph = NULL;
  OK(weft_graph_make("ring", 4, &graph));
  struct {
    weft_graph_properties known;
    int64_t newer;
  } large = {.known = {.size = sizeof(large)}, .newer = 5};
  OK(weft_graph_get_properties(graph, &large.known));
  CHECK(large.known.is_regular == 1 && large.newer == 0 && large.known.size == sizeof(large));
  weft_graph_properties older = {.size = 16, .is_strongly_connected = -1};
  OK(weft_graph_get_properties(graph, &older));  // of a version with two members
  CHECK(older.is_regular == 1 && older.is_undirected == 1 && older.is_strongly_connected == -1);
  const size_t wrong[] = {0, 1, 7, 43, 5000, (size_t)-1, (size_t)-8};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i) {
    older.size = wrong[i];
    INVALID(weft_graph_get_properties(graph, &older), "properties->size is");
  }
  OK(weft_graph_free(graph));
}

// Each thread has its own last error.
static void* fail_in_a_thread(void* unused) {
  CHECK(strcmp(weft_last_error(), "") == 0 && weft_last_error_code() == WEFT_OK);
  INVALID(weft_graph_free(unused), "weft_graph_free: graph is no weft_graph");
  return NULL;
}
static void test_last_error(void) {
  pthread_t thread;
  int unused = 0;
  INVALID(weft_config_new(NULL), "weft_config_new");
  CHECK(pthread_create(&thread, NULL, fail_in_a_thread, &unused) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(strcmp(weft_last_error(), "weft_config_new: config is NULL") == 0);
  char name[4000];  // a text that is too long is cut between two characters
  memset(name, 'x', sizeof(name));
  name[sizeof(name) - 1] = '\0';
  weft_data_type type = 0;
  INVALID(weft_data_type_from_name(name, &type), "xxxx");
  CHECK(strlen(weft_last_error()) < 2048 && strstr(weft_last_error(), "x…") != NULL);
}

int main(void) {
  bound_time(60);
  CHECK(strcmp(weft_last_error(), "") == 0 && weft_last_error_code() == WEFT_OK);
  CHECK(weft_last_error_rank() == WEFT_NO_RANK);
  test_names();
  test_last_error();
  test_settings();
  test_environment();
  test_memory();
  test_structs();
  INVALID(weft_log_set_level(5, 0), "lowest is 5");
  OK(weft_log_set_level(WEFT_LOG_WARNING, WEFT_NO_RANK));
  return 0;
}
