// The C API: stores. A store is how the ranks of a job find each other.
#pragma once

#include <weft/c/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_store weft_store;

// Opens the store of the launcher that the configuration names, and writes into the configuration
// what only the launcher knows. All ranks must do this alike.
WEFT_C_API weft_code weft_store_open(weft_config* config, weft_store** store);
// Makes n stores for n ranks that are threads of this process: stores[r] is for rank r. `stores`
// has room for n. The caller frees each of them.
WEFT_C_API weft_code weft_store_make_local(int32_t n, weft_store** stores);
// Frees a store. Contexts that were made with it keep it.
WEFT_C_API weft_code weft_store_free(weft_store* store);

WEFT_C_API weft_code weft_store_rank(const weft_store* store, int32_t* rank);
WEFT_C_API weft_code weft_store_size(const weft_store* store, int32_t* size);

#ifdef __cplusplus
}
#endif
